"""A processor that starts again while its reports are fetched is waited for, within a bound."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from reconciliation.payments.settlement.sources import download, listed_reports
from schemas.errors import Unavailable
from schemas.payments import limits
from tests.worlds.payments.report_host import report_host

if TYPE_CHECKING:
    from pathlib import Path


def test_one_that_refuses_connections_is_asked_again_until_it_listens() -> None:
    with report_host(is_listening=False) as host:
        host.make("rpt_1", datetime.now(UTC))
        waits: list[str] = []

        def wait(reason: str) -> None:
            waits.append(reason)
            if len(waits) == 2:
                host.listen()

        assert [report.report_id for report in listed_reports(host.url, wait)] == ["rpt_1"]
        assert waits == ["ConnectError", "ConnectError"]


def test_one_that_breaks_off_is_asked_again_and_the_report_is_whole(tmp_path: Path) -> None:
    with report_host() as host:
        host.make("rpt_1", datetime.now(UTC))
        host.broken_off = 1
        download(host.url, "rpt_1", tmp_path / "report")
        assert (tmp_path / "report").read_bytes() == host.reports["rpt_1"]
        assert host.downloads == ["rpt_1", "rpt_1"]


def test_one_that_stays_away_is_told_after_the_last_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SETTLEMENT_FETCH_PAUSES_S", (0.01, 0.01))
    waits: list[str] = []
    with report_host(is_listening=False) as host, pytest.raises(Unavailable, match="cannot be listed: ConnectError"):
        listed_reports(host.url, waits.append)
    assert waits == ["ConnectError", "ConnectError"]


def test_what_answers_no_is_not_asked_again() -> None:
    waits: list[str] = []
    with report_host() as host:
        host.is_away = True
        with pytest.raises(Unavailable, match="cannot be listed: HTTPStatusError"):
            listed_reports(host.url, waits.append)
    assert waits == []

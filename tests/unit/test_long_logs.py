"""A log that became too long is begun anew under the process that writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose import limits
from compose.stack import processes
from compose.stack.home import Home
from compose.supervise.long_logs import LongLogs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_long_log_is_begun_anew_and_its_process_writes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BYTES_MAX", 20)
    monkeypatch.setattr(limits, "LOG_LOOK_INTERVAL_S", 0.0)
    home = Home(tmp_path)
    home.logs.mkdir()
    home.log("short").write_text("a line\n")
    logs = LongLogs(home)
    with processes.end_of(home.log("owner-0")) as written:
        for said in ("a first, quite long line\n", "another, quite long line\n"):
            written.write(said.encode())
            written.flush()
            assert logs.look() == "begun anew, what was said is in .log.1: owner-0.log"
            assert (home.logs / "owner-0.log.1").read_text() == said
            assert home.log("owner-0").read_text() == ""
        written.write(b"on\n")
    assert logs.look() is None
    assert home.log("owner-0").read_bytes() == b"on\n", "no hole where the old text was"
    assert home.log("short").read_text() == "a line\n"


def test_a_log_that_cannot_be_copied_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BYTES_MAX", 20)
    home = Home(tmp_path)
    (home.logs / "owner-0.log.1").mkdir(parents=True)
    home.log("owner-0").write_text("a first, quite long line\n")
    assert "stays so" in (LongLogs(home).look() or "")
    assert home.log("owner-0").read_text() == "a first, quite long line\n"

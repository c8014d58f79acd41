"""What commands about the limiter print, on a terminal that is wide enough and on one that is not."""

from __future__ import annotations

from typing import Any

import pytest

from compose.cli.limiter.table import print_table

ROW: dict[str, Any] = {
    "policy_id": "pl_52rgf4kdqlixlye3kt76mmdgnu",
    "consistency": "exact",
    "shadow": True,
    "health": "ok, without a replica",
    "remaining": 99,
    "reset_ms": 6_735_986_960,
    "note": "",
}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_figure_is_there_however_narrow_the_terminal_is(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table([ROW, ROW], tuple(ROW))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert all(sum(str(value) in line for line in lines) >= 2 for value in ROW.values())
    assert (len(lines) == 3) is (width == 200)


def test_no_row_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], ("policy_id",))
    assert capsys.readouterr().out == "no policy\n"

"""What a demo came to is told in few lines that fit a terminal; what went wrong has its mark and its words."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from compose.proof.demo.social_act import SocialPlay
from compose.proof.demo.summary import sum_up
from compose.proof.demo.tenancy_act import TenancyPlay


def told(**changes: Any) -> list[str]:
    act = SimpleNamespace(problem="")
    settlement = SimpleNamespace(planted=["a", "b"], breaks_found=changes.get("found", 2))
    out = io.StringIO()
    verdict = SimpleNamespace(
        tally=SimpleNamespace(created=[1] * 400, duplicates_replayed=812, problems=[]),
        kill=SimpleNamespace(moved_after_s=changes.get("moved_after_s", 1.5)),
        checked=SimpleNamespace(invariants=[1] * 40, gaps=changes.get("gaps", 0)),
        played=SimpleNamespace(settlement=settlement, repair=SimpleNamespace(is_done=True), payments=[act, act]),
        quotas=SimpleNamespace(is_ok=True),
        social=SocialPlay(posts=12, homes=12),
        tenancy=TenancyPlay(events=240, writes=60),
        differences=changes.get("differences", []),
    )
    sum_up(Console(file=out, width=80), verdict)  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_an_act_is_a_line_with_its_mark() -> None:
    lines = told()
    assert len(lines) <= 14
    assert max(map(len, lines)) <= 80
    acts = [line for line in lines if line[:1] in ("✓", "✗")]
    assert len(acts) == 9
    assert not any(line.startswith("✗") for line in acts)
    assert "40 invariants, 0 gaps" in acts[-1]


def test_what_went_wrong_is_marked() -> None:
    lines = told(found=1, moved_after_s=None, gaps=3, differences=["the books differ by 7"])
    wrong = [line for line in lines if line.startswith("✗")]
    assert ["taken over" in wrong[0], "1 of 2" in wrong[1], "3 gaps" in wrong[2]] == [True] * 3
    assert "differs the books differ by 7" in lines

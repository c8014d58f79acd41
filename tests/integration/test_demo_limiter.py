"""The limiter's demo on real servers: a short replay proves itself, and gateways that let too much through do not pass."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.console import Console

from compose.demo.access_log import generated_lines, parsed
from compose.demo.limiter_command import line, show
from compose.demo.limiter_run import replay_through_gateways
from compose.demo.narrator import Narrator

if TYPE_CHECKING:
    from schemas.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.slow]
LINES = 800
SPEED = 8_000  # a few seconds, in which quotas run out


def narrator() -> Narrator:
    made = Narrator()
    made.console = Console(file=io.StringIO(), width=160)
    return made


def twice(policy: LimitPolicy) -> LimitPolicy:
    """What a gateway that ignores the limit lets through."""
    return msgspec.structs.replace(policy, capacity=2 * policy.capacity)


def test_a_replay_with_a_killed_gateway_and_a_policy_change_proves_itself(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = replay_through_gateways(parsed(generated_lines(LINES)), SPEED, narrator())
    figures = verdict.figures()
    assert verdict.is_ok, figures
    assert figures["requests"] == LINES
    assert figures["gateways_killed"] == 1
    assert figures["counters_changed"] > 0
    assert figures["repeats_recognized"] > 0
    assert any(row["refused"] for row in figures["policies"])
    show(verdict, narrator())
    assert capsys.readouterr().out.splitlines()[-1] == line(verdict)
    assert line(verdict).startswith(f"LIMITER OK requests={LINES} ")


def test_gateways_that_let_too_much_through_are_found() -> None:
    verdict = replay_through_gateways(parsed(generated_lines(LINES)), SPEED, narrator(), as_published=twice)
    assert not verdict.is_ok
    assert verdict.judge.over_admitted > 0
    assert line(verdict).startswith("LIMITER FAILED ")

"""The limiter's demo on real servers: a short replay proves itself, and gateways that let too much through do not pass."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rich.console import Console

from compose.proof.demo.breaks import Settlement
from compose.proof.demo.limiter.access_log import generated_lines, parsed
from compose.proof.demo.limiter.act import limiter_differences, limiter_pairs
from compose.proof.demo.limiter.command import line, show
from compose.proof.demo.limiter.run import LimiterVerdict, replay_through_gateways
from compose.proof.demo.one_of_each import OneOfEach
from compose.proof.demo.social_act import SocialPlay
from compose.proof.demo.stories import stories_of
from compose.proof.demo.tally import StoryOutcome, Tally
from compose.proof.demo.tenancy_act import TenancyPlay
from compose.proof.demo.verdict import Verdict
from compose.proof.kit.journal import Journal
from compose.proof.kit.narrator import Narrator
from tests.unit.test_demo_stories import invoices_of

if TYPE_CHECKING:
    from schemas.limiter.limit_policy import LimitPolicy

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


def demo_verdict(quotas: LimiterVerdict) -> Verdict:
    """A demo in which everything else went well."""
    tally = Tally()
    created: Any = SimpleNamespace(event={"aggregate_key": "pi_1"})
    tally.told.append(StoryOutcome(stories_of(invoices_of([500]))[0], Journal(), 0, commands={"create": created}))
    played = OneOfEach([], Settlement([]))
    evidence: Any = SimpleNamespace(differences=[])
    checked: Any = SimpleNamespace(gaps=0)
    kill: Any = SimpleNamespace()
    return Verdict(tally, kill, played, quotas, SocialPlay(), TenancyPlay(), evidence, checked)


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
    assert limiter_differences(verdict) == []
    assert demo_verdict(verdict).is_ok
    assert "quota_over_admitted=0 quota_duplicates_charged=0 quota_lease_gap=0 " in demo_verdict(verdict).line(1.0)


@pytest.mark.proof
def test_gateways_that_let_too_much_through_are_found() -> None:
    verdict = replay_through_gateways(parsed(generated_lines(LINES)), SPEED, narrator(), as_published=twice)
    assert not verdict.is_ok
    assert verdict.judge.over_admitted > 0
    assert line(verdict).startswith("LIMITER FAILED ")
    assert any("over_admitted" in difference for difference in limiter_differences(verdict))
    assert limiter_pairs(verdict)["quota_over_admitted"] > 0
    assert not demo_verdict(verdict).is_ok

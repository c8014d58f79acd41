"""The limiter's act of the demo: a short log through three gateways, one of them killed, beside the exact oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.proof import limits
from compose.proof.demo.limiter.access_log import generated_lines, parsed
from compose.proof.demo.limiter.command import show_tables
from compose.proof.demo.limiter.run import replay_through_gateways

if TYPE_CHECKING:
    from compose.proof.demo.limiter.run import LimiterVerdict
    from compose.proof.kit.narrator import Narrator

#: what must be zero, or the demo has failed; and what shows that there was something to prove
_IN_THE_LINE = ("decisions", "repeats_recognized", "over_admitted", "duplicates_charged", "lease_gap", "exact_gap")


def play_limiter(narrator: Narrator) -> LimiterVerdict:
    """Plays it on a Valkey and gateways of its own. Raises StackError when they do not start."""
    log = parsed(generated_lines(limits.DEMO_LIMITER_LINES))
    narrator.say(f"quotas: {len(log.visits):,} requests of an access log, a fifth of them retried")
    verdict = replay_through_gateways(log, limits.DEMO_LIMITER_SPEED, narrator)
    narrator.say(
        f"quotas: {verdict.judge.decisions:,} decisions, {verdict.judge.repeats:,} retries recognized, "
        f"{verdict.judge.over_admitted} over the bound"
    )
    return verdict


def show_limiter(verdict: LimiterVerdict, narrator: Narrator) -> None:
    """Admitted against the bound, policy by policy, and what the leases came to."""
    narrator.console.print("Quotas: an access log through three gateways", style="bold")
    show_tables(verdict, narrator)


def limiter_differences(verdict: LimiterVerdict) -> list[str]:
    """Every bound that was broken, in words; empty when the act has proved itself."""
    if verdict.is_ok:
        return []
    wrong = [f"quotas: {name} is {value}, must be 0" for name, value in verdict.wrong().items() if value]
    return [*wrong, *verdict.judge.problems] or ["quotas: more was admitted than the bound, or nothing was decided"]


def limiter_pairs(verdict: LimiterVerdict) -> dict[str, int]:
    """The figures for the demo's last line."""
    figures = verdict.figures()
    return {f"quota_{name}": figures[name] for name in _IN_THE_LINE}

"""All that a demo has to show: a payment's timeline, every act, the books, the counts, what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.proof import limits
from compose.proof.demo import report
from compose.proof.demo.limiter.act import show_limiter
from compose.proof.demo.timeline import timeline

if TYPE_CHECKING:
    from compose.proof.demo.tally import StoryOutcome
    from compose.proof.demo.verdict import Verdict
    from compose.proof.kit.narrator import Narrator
    from compose.settings.addresses import Addresses


def show_all(narrator: Narrator, verdict: Verdict, addresses: Addresses) -> None:
    """Prints it."""
    console = narrator.console
    chosen = worth_showing(verdict.tally.told, verdict.kill.killed_at if verdict.kill else 0)
    if chosen is not None:
        console.print()
        report.show_timeline(console, chosen, timeline(chosen, addresses))
    console.print()
    report.show_one_of_each(console, verdict.played)
    console.print()
    show_limiter(verdict.quotas, narrator)
    for show in (report.show_trial_balance, report.show_book, report.show_volumes):
        console.print()
        show(console, verdict.evidence)
    console.print()
    report.show_check(console, verdict.checked)
    console.print()
    report.show_counts(console, verdict.tally, verdict.evidence, verdict.kill)
    console.print()
    for difference in verdict.differences[: limits.DEMO_PROBLEMS_SHOWN_MAX]:
        console.print(f"[red]differs[/red] {difference}", markup=True, soft_wrap=True)


def worth_showing(told: list[StoryOutcome], killed_at: int) -> StoryOutcome | None:
    """A captured payment of single calls: what the killed owner delayed most, else one whose answers got lost."""
    captured = [one for one in told if one.intent.get("amount_received") and not one.story.is_bulk]
    if not captured:
        return next((one for one in told if one.intent_id), None)
    plain = [one for one in captured if not one.story.kind.is_manual] or captured

    def interest(one: StoryOutcome) -> tuple[bool, int]:
        crossed = one.began_at <= killed_at <= one.ended_at and one.story.kind.card == "tok_sim_approve"
        lost = sum(exchange.was_lost for exchange in one.journal.exchanges)
        return crossed, one.ended_at - one.began_at if crossed else lost

    return max(plain, key=interest)

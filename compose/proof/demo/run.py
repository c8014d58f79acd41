"""The demo from an empty folder to the verdict: start, pay, kill, wait, compare, show, remove."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compose.operator_access import check_settings
from compose.proof import limits as proof_limits
from compose.proof.demo import report
from compose.proof.demo.limiter.act import limiter_differences, limiter_pairs, play_limiter, show_limiter
from compose.proof.demo.one_of_each import OneOfEach, compare_postings, play_one_of_each
from compose.proof.demo.owner_kill import Kill, kill_an_owner
from compose.proof.demo.social_act import social_playing
from compose.proof.demo.stories import stories_of
from compose.proof.demo.summary import sum_up
from compose.proof.demo.tally import Tally
from compose.proof.demo.tenancy_act import tenancy_playing
from compose.proof.demo.timeline import timeline
from compose.proof.demo.traffic import tell_all
from compose.proof.kit.acknowledged import Acknowledgements
from compose.proof.kit.evidence import Evidence, gather
from compose.proof.kit.settling import all_final
from compose.settings.settings import load_settings
from ingress.identity.issuer import KeyFolder, issue_token
from reconciliation.check.run import run_check
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compose.proof.demo.invoices import Invoices
    from compose.proof.demo.limiter.run import LimiterVerdict
    from compose.proof.demo.social_act import SocialPlay
    from compose.proof.demo.stories import Story
    from compose.proof.demo.tally import StoryOutcome
    from compose.proof.demo.tenancy_act import TenancyPlay
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from reconciliation.check.run import Report


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo came to. ``differences`` empty and no gaps: OK."""

    tally: Tally
    differences: list[str]
    gaps: int
    killed: bool
    played: OneOfEach
    quotas: LimiterVerdict
    social: SocialPlay
    tenancy: TenancyPlay

    @property
    def is_ok(self) -> bool:
        """Nothing was lost, doubled or unbalanced, and no quota let more through than its bound."""
        return not self.differences and not self.gaps and bool(self.tally.created) and self.quotas.is_ok

    def line(self, seconds: float) -> str:
        """The last line of the demo."""
        tally = self.tally
        pairs = {
            "payments": len(tally.created),
            "captured": tally.captured,
            "duplicates_replayed": tally.duplicates_replayed,
            "invariant_gaps": self.gaps,
            "declined": tally.declined,
            "canceled": tally.ended("canceled"),
            "answers_lost": tally.answers_lost,
            "stale_refused": tally.stale_refused,
            "keys_reused_refused": tally.reused_refused,
            "owners_killed": int(self.killed),
            "acts": sum(not act.problem for act in self.played.acts),
            "breaks_planted": len(self.played.settlement.planted),
            "breaks_found": self.played.settlement.breaks_found,
            "repairs": int(self.played.repair.is_done),
            "differences": len(self.differences),
            **limiter_pairs(self.quotas),
            **self.social.pairs(),
            **self.tenancy.pairs(),
            "seconds": f"{seconds:.1f}",
        }
        text = " ".join(f"{name}={value}" for name, value in pairs.items())
        return f"DEMO {'OK' if self.is_ok else 'FAILED'} {text}"


def demonstrate(
    stack: OwnStack, invoices: Invoices, rate: float, narrator: Narrator, social_data: Path | None = None
) -> Verdict:
    """Runs the whole demo on a stack that is ready."""
    with social_playing(stack, social_data) as social_played, tenancy_playing(stack) as tenancy_played:
        return _demonstrate(stack, invoices, rate, narrator, social_played, tenancy_played)


def _demonstrate(
    stack: OwnStack,
    invoices: Invoices,
    rate: float,
    narrator: Narrator,
    social_played: Callable[[], SocialPlay],
    tenancy_played: Callable[[], TenancyPlay],
) -> Verdict:
    tally = Tally()
    if invoices.credit_notes:
        narrator.say(f"{invoices.credit_notes} credit notes skipped: they are not payable")
    if invoices.of_nothing:
        narrator.say(f"{invoices.of_nothing} invoices of 0 skipped: there is nothing to pay")
    acknowledged = Acknowledgements(stack.home / "acknowledged.ndjson")
    try:
        kill = asyncio.run(
            _pay(
                stack,
                stories_of(invoices.payable),
                rate=rate,
                tally=tally,
                acknowledged=acknowledged,
                narrator=narrator,
            )
        )
    finally:
        acknowledged.close()
    played = play_one_of_each(stack, narrator)
    quotas = play_limiter(narrator)
    with narrator.busy("social posts: homes, a privacy change, a takedown, an erasure"):
        social = social_played()
    with narrator.busy("tenants: a metered day, a move whose mover is killed, an attempt at another's resource"):
        tenancy = tenancy_played()
    addresses = stack.settings.addresses()
    with narrator.busy("waiting until everything is final"):
        asyncio.run(_settle(addresses.postgres_reader_dsn, tally))
    compare_postings(played, addresses.postgres_reader_dsn)
    tally.problems += played.problems + limiter_differences(quotas) + social.problems + tenancy.problems
    narrator.say(f"{acknowledged.count} answers said committed: {acknowledged.path.name} in {stack.home}")
    with narrator.busy("comparing ledger, processor, ClickHouse"):
        evidence = gather(addresses)
        checked = run_check(check_settings(load_settings(), acknowledged.path))
    _show(
        narrator,
        stack,
        tally=tally,
        evidence=evidence,
        kill=kill,
        checked=checked,
        played=played,
        quotas=quotas,
        social=social,
        tenancy=tenancy,
    )
    differences = tally.problems + evidence.differences
    return Verdict(tally, differences, checked.gaps, kill is not None, played, quotas, social, tenancy)


async def _settle(postgres_dsn: str, tally: Tally) -> float:
    """The seconds it took until all is final; past the bound the tally says what was not."""
    took, unfinished = await all_final(postgres_dsn, proof_limits.DEMO_VIEWS_WAIT_S)
    if unfinished:
        tally.problem(unfinished)
    return took


async def _pay(
    stack: OwnStack,
    stories: list[Story],
    *,
    rate: float,
    tally: Tally,
    acknowledged: Acknowledgements,
    narrator: Narrator,
) -> Kill | None:
    addresses = stack.settings.addresses()
    keys = KeyFolder(stack.home / "keys")
    kills: list[Kill] = []

    async def kill() -> None:
        narrator.say("half-way: killing an owner (SIGKILL) while requests go on")
        kills.append(await kill_an_owner(stack, addresses.postgres_reader_dsn))
        _tell_of_kill(kills[0], tally, narrator)

    with narrator.busy(f"{len(stories)} payments, {rate:g} per second, over {addresses.base_url}"):
        await tell_all(
            stories,
            base_url=addresses.base_url,
            token_of=lambda merchant: issue_token(keys, merchant, ttl_s=limits.TOKEN_TTL_MAX_S),
            rate=rate,
            tally=tally,
            acknowledged=acknowledged,
            half_way=kill,
            progress=lambda ended: narrator.payments(ended, len(stories)),
        )
    with narrator.busy("waiting until everything is final"):
        took = await _settle(addresses.postgres_reader_dsn, tally)
    narrator.say(f"all {len(stories)} payments have ended; everything was final {took:.1f} s later")
    return kills[0] if kills else None


def _tell_of_kill(kill: Kill, tally: Tally, narrator: Narrator) -> None:
    if kill.moved_after_s is None:
        tally.problem(f"the {kill.partitions} partitions of {kill.name} were not taken over in time")
    else:
        narrator.say(
            f"{kill.name} (pid {kill.pid}) was killed; its {kill.partitions} partitions were taken over "
            f"after {kill.moved_after_s:.1f} s"
        )


def _show(
    narrator: Narrator,
    stack: OwnStack,
    *,
    tally: Tally,
    evidence: Evidence,
    kill: Kill | None,
    checked: Report,
    played: OneOfEach,
    quotas: LimiterVerdict,
    social: SocialPlay,
    tenancy: TenancyPlay,
) -> None:
    console = narrator.console
    if not narrator.verbose:
        differences = tally.problems + evidence.differences
        sum_up(
            console,
            tally=tally,
            kill=kill,
            checked=checked,
            played=played,
            quotas=quotas,
            social=social,
            tenancy=tenancy,
            differences=differences,
        )
        return
    chosen = worth_showing(tally.told, kill.killed_at if kill else 0)
    if chosen is not None:
        console.print()
        report.show_timeline(console, chosen, timeline(chosen, stack.settings.addresses()))
    console.print()
    report.show_one_of_each(console, played)
    console.print()
    show_limiter(quotas, narrator)
    for show in (report.show_trial_balance, report.show_book, report.show_volumes):
        console.print()
        show(console, evidence)
    console.print()
    report.show_check(console, checked)
    console.print()
    report.show_counts(console, tally, evidence, kill)
    console.print()
    for difference in (tally.problems + evidence.differences)[: proof_limits.DEMO_PROBLEMS_SHOWN_MAX]:
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


def how_to_use(stack: OwnStack) -> list[str]:
    """What somebody needs who keeps the stack."""
    home, millrace = f"MILLRACE_HOME={stack.home}", sys.argv[0]
    return [
        f"The stack runs on: {stack.world['base_url']}",
        f"  a token:  {home} {millrace} token --merchant m_demo_north",
        f"  a look:   {home} {millrace} status",
        f"  the end:  {home} {millrace} down && rm -r {stack.home}",
    ]

"""The demo from an empty folder to the verdict: start, pay, kill, wait, compare, show, remove."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from compose.operator_access import check_settings
from compose.proof import limits as proof_limits
from compose.proof.demo.limiter.act import limiter_differences, play_limiter
from compose.proof.demo.one_of_each import compare_postings, play_one_of_each
from compose.proof.demo.owner_kill import Kill, kill_an_owner
from compose.proof.demo.showing import show_all
from compose.proof.demo.social_act import social_playing
from compose.proof.demo.stories import stories_of
from compose.proof.demo.summary import sum_up
from compose.proof.demo.tally import Tally
from compose.proof.demo.tenancy_act import tenancy_playing
from compose.proof.demo.traffic import tell_all
from compose.proof.demo.verdict import Verdict
from compose.proof.kit.acknowledged import Acknowledgements
from compose.proof.kit.evidence import gather
from compose.proof.kit.settling import all_final
from compose.settings.settings import load_settings
from ingress.identity.issuer import KeyFolder, issue_token
from reconciliation.check.run import run_check
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.demo.invoices import Invoices
    from compose.proof.demo.social_act import SocialPlay
    from compose.proof.demo.social_cast import Cast
    from compose.proof.demo.stories import Story
    from compose.proof.demo.tenancy_act import TenancyPlay
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack


def demonstrate(stack: OwnStack, invoices: Invoices, rate: float, narrator: Narrator, cast: Cast) -> Verdict:
    """Runs the whole demo on a stack that is ready."""
    with social_playing(stack, cast) as social_played, tenancy_playing(stack) as tenancy_played:
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
    verdict = Verdict(tally, kill, played, quotas, social, tenancy, evidence, checked)
    if narrator.verbose:
        show_all(narrator, verdict, addresses)
    else:
        sum_up(narrator.console, verdict)
    return verdict


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


def how_to_use(stack: OwnStack) -> list[str]:
    """What somebody needs who keeps the stack."""
    home, millrace = f"MILLRACE_HOME={stack.home}", sys.argv[0]
    return [
        f"The stack runs on: {stack.world['base_url']}",
        f"  a token:  {home} {millrace} token --merchant m_demo_north",
        f"  a look:   {home} {millrace} status",
        f"  the end:  {home} {millrace} down && rm -r {stack.home}",
    ]

"""The soak of the limiter: clients at three gateways, everything killed in turn, policies changed; then the proof."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx
import psycopg

from compose.proof import limits as proof_limits
from compose.proof.soak.disturbance import Disturber
from compose.proof.soak.limiter import analytics, books
from compose.proof.soak.limiter.ledger import QUOTAS, Ledger, prove
from compose.proof.soak.limiter.load import Clients, draw
from compose.proof.soak.limiter.policies import Policies
from compose.proof.soak.outages import Answers, died_alone, missed, outages
from compose.proof.soak.proof import Proof, Verdict
from compose.proof.soak.waiting import Unexpected
from compose.stack.errors import StackError
from ingress.identity.issuer import KeyFolder, issue_token
from schemas import limits
from schemas.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack

#: what a gateway needs, what settles its leases, and the two readers of its decisions
SERVICES: Final = (
    *("limiter_owner", "limiter_leases", "limiter_usage", "clickhouse_sink", "limiter_gateway", "ingress"),
)
GATEWAYS: Final = 3
_GATEWAY: Final = "limiter_gateway"


@dataclass(slots=True)
class Run:
    """What one soak did and saw."""

    seed: int
    stack: OwnStack
    narrator: Narrator
    ledger: Ledger
    disturber: Disturber
    answers: Answers = field(default_factory=Answers)
    by_kind: dict[str, int] = field(default_factory=dict)
    started: int = 0


def soak(stack: OwnStack, *, minutes: float, rate: float, seed: int, narrator: Narrator) -> Verdict:
    """Runs the whole soak on a stack that is ready."""
    ledger = Ledger(gateways=GATEWAYS, capacities={quota: [] for quota in QUOTAS})
    disturber = Disturber(stack, random.Random(seed), {}, narrator.say, frozen=(_GATEWAY,))
    run = Run(seed, stack, narrator, ledger, disturber)
    return asyncio.run(_Soak(run, minutes * 60, rate).run())


class _Soak:
    """Everything that goes on at once."""

    def __init__(self, run: Run, seconds: float, rate: float) -> None:
        self._run = run
        self._seconds, self._rate = seconds, rate
        self._addresses = run.stack.settings.addresses()
        sockets = [one["socket"] for one in run.stack.world["limiter_gateways"]]
        self._clients = Clients(sockets)
        self._is_calm = asyncio.Event()  # nothing is killed any more
        self._policies = Policies(run.ledger.capacities, self._is_calm, seconds, rate)

    async def run(self) -> Verdict:
        """Load, kills and changes for so long, then rest, then the proofs."""
        run = self._run
        token = issue_token(KeyFolder(run.stack.home / "keys"), "soak", ("limits:write",), limits.TOKEN_TTL_MAX_S)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=self._addresses.base_url, headers=headers, timeout=proof_limits.SOAK_CALL_WAIT_S, trust_env=False
        ) as http:
            await self._policies.publish_all(http)
            await self._policies.are_followed(self._clients)
            what = f"seed {run.seed}: {self._rate:g} checks per second at {GATEWAYS} gateways"
            with run.narrator.busy(f"{what}, kills for {self._seconds:.0f} s"):
                telling = asyncio.create_task(self._tell())
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._ask(tasks))
                        tasks.create_task(self._disturb())
                        tasks.create_task(self._guarded("policies", self._policies.change(http)))
                finally:
                    telling.cancel()
        self._clients.close()
        with run.narrator.busy("waiting until every lease is settled"):
            await self._guarded("rest", self._rest())
        with run.narrator.busy("comparing clients, store and stream"):
            return await self._verdict()

    # --- at once ---------------------------------------------------------------------------------------------

    async def _ask(self, tasks: asyncio.TaskGroup) -> None:
        room = asyncio.Semaphore(proof_limits.SOAK_CHECKS_OPEN_MAX)
        began, number = time.monotonic(), 0
        while not self._is_calm.is_set():
            await room.acquire()
            if (pause := began + number / self._rate - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            tasks.create_task(self._one(number, room))
            number += 1

    async def _one(self, number: int, room: asyncio.Semaphore) -> None:
        run, question = self._run, draw(self._run.seed, number, GATEWAYS)
        run.started += 1
        try:
            found = await self._clients.converse(question)
        finally:
            room.release()
        kind = f"{question.quota}, {question.how}"
        run.by_kind[kind] = run.by_kind.get(kind, 0) + 1
        if isinstance(found, str):
            run.ledger.problems.append(found)
            return
        run.answers.note(found.sent_s)
        run.ledger.conversations.append(found)

    async def _disturb(self) -> None:
        try:
            await self._guarded("disturbances", self._run.disturber.disturb(time.monotonic() + self._seconds))
        finally:
            self._is_calm.set()

    async def _guarded(self, what: str, act: Awaitable[None]) -> None:
        """What goes wrong is a problem of the run, not its end."""
        try:
            await act
        except (Unexpected, PlatformError, StackError, httpx.HTTPError, psycopg.Error, OSError) as error:
            self._run.ledger.problems.append(f"{what}: {str(error) or type(error).__name__}")

    async def _tell(self) -> None:
        run = self._run
        while True:
            await asyncio.sleep(proof_limits.SOAK_PROGRESS_INTERVAL_S)
            told, done = len(run.ledger.conversations), len(run.disturber.done)
            run.narrator.now(
                f"{told} of {run.started} identities have their answer, {done} processes disturbed, "
                f"{len(run.ledger.problems)} problems"
            )

    # --- afterwards ------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        if unfinished := await books.at_rest(self._addresses, proof_limits.SOAK_SETTLE_WAIT_S):
            self._run.ledger.problems.append(unfinished)

    async def _verdict(self) -> Verdict:
        run, ledger = self._run, self._run.ledger
        done = run.disturber.done
        ledger.breaks = [one.at_s for one in done if any(name.startswith(_GATEWAY) for name in (one.name, *one.group))]
        ledger.killed = sum(name.startswith(_GATEWAY) for one in done for name in one.ended)
        try:
            booked = await books.booked(self._addresses, ledger.heard())
            proofs = prove(ledger, booked, books.leases(self._addresses, self._policies.ids))
            proofs.append(books.each_lease(self._addresses))
            proofs.append(await analytics.same_decisions(self._addresses, proof_limits.SOAK_SETTLE_WAIT_S))
        except (PlatformError, psycopg.Error, OSError, ValueError) as error:
            proofs = [Proof(name="the accounts", says="could not be read", problems=[str(error), *ledger.problems])]
        there = list(run.disturber.there().values())
        problems = missed(there, done, run.answers, frozen=(_GATEWAY,))
        proofs += [
            Proof(name="every process was killed and came back", says=f"{len(done)} times", problems=problems),
            Proof(
                name="nothing died that was not killed",
                says=f"{len(there)} processes",
                problems=died_alone(there, done),
            ),
        ]
        return Verdict(
            seed=run.seed,
            figures=self._figures(),
            by_kind=dict(sorted(run.by_kind.items())),
            disturbances=[str(one) for one in done],
            outages=outages(done, run.answers),
            proofs=proofs,
        )

    def _figures(self) -> dict[str, int]:
        heard = self._run.ledger.heard().values()
        return {
            "identities": len(self._run.ledger.conversations),
            "admitted": sum(one.admitted for one in heard),
            "refused": sum(one.refused for one in heard),
            "from_leases": sum(one.by_leases for one in heard),
            "without_store": sum(one.uncounted for one in heard),
            "paid_twice": sum(one.again_by_leases for one in heard),
            "maybe": sum(one.maybe for one in heard),
            "policy_versions": sum(map(len, self._run.ledger.capacities.values())),
        }

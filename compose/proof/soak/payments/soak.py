"""The soak from a ready stack to the verdict: pay, settle, repair and kill at once; then come to rest and prove it."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import psycopg

from compose.operator_access import ROLE
from compose.proof import limits as proof_limits
from compose.proof.kit.acknowledged import Acknowledgements
from compose.proof.kit.journal import LossyTransport
from compose.proof.kit.settling import all_final
from compose.proof.soak.disturbance import Disturber
from compose.proof.soak.payments.accounts import FROZEN_MERCHANT, Freezer, Payouts
from compose.proof.soak.payments.bank import write_statements
from compose.proof.soak.payments.caller import Caller
from compose.proof.soak.payments.operators import OPERATORS, Operators
from compose.proof.soak.payments.payer import Payer
from compose.proof.soak.payments.plans import CURRENCIES, KINDS, MERCHANTS, Kind, Plan, draw
from compose.proof.soak.payments.processor import Processor
from compose.proof.soak.payments.run import Run
from compose.proof.soak.payments.settlements import Settlements, Victim, reconcile_twice, run_reconcile
from compose.proof.soak.payments.shop import open_shop
from compose.proof.soak.payments.verdict import prove
from compose.proof.soak.proof import Verdict
from compose.proof.soak.waiting import Unexpected, answered
from compose.stack.errors import StackError
from ingress.client import AsyncMillraceClient, MillraceClientError
from ingress.client.wire import POOL
from ingress.identity.issuer import KeyFolder, issue_token
from reconciliation.payments.settlement.run import ReconcileSettings
from schemas import limits
from schemas.senders import RECONCILE

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack

_PLAIN = Kind(name="for a settlement")


def soak(stack: OwnStack, *, minutes: float, rate: float, seed: int, narrator: Narrator) -> Verdict:
    """Runs the whole soak on a stack that is ready."""
    acknowledged = Acknowledgements(stack.home / "acknowledged.ndjson")
    with open_shop() as shop:
        run = Run(seed, stack, narrator, acknowledged, shop)
        try:
            asyncio.run(_Soak(run).run(minutes * 60, rate))
        finally:
            acknowledged.close()
        with narrator.busy("comparing every store with every other"):
            return prove(run)


class _Soak:
    """Everything that goes on at once, over the clients that it holds."""

    def __init__(self, run: Run) -> None:
        self._run = run
        stack = run.stack
        self._addresses = stack.settings.addresses()
        self._keys = KeyFolder(stack.home / "keys")
        self._processors = {name: Processor(name, url) for name, url in self._addresses.simulator_urls.items()}
        steady = {f"{name}-0": processor.steady for name, processor in self._processors.items()}
        run.disturber = Disturber(stack, random.Random(run.seed), steady, run.narrator.say)
        self._payers: dict[str, Payer] = {}
        self._victims = 0
        self._is_calm = asyncio.Event()  # nothing is killed any more
        self._settlements = Settlements(self._processors, self._pay_victims, run.books)
        self._reconcile = ReconcileSettings(
            postgres_dsn=self._addresses.postgres_dsns[ROLE],
            kafka=stack.settings.kafka_as(RECONCILE),
            processors=dict(self._addresses.simulator_urls),
        )

    async def run(self, seconds: float, rate: float) -> None:
        """Load and kills for so long, then rest, then the last settlement and the bank."""
        run = self._run
        async with AsyncExitStack() as clients:
            await self._open(clients)
            ends_at = time.monotonic() + seconds
            with run.narrator.busy(f"seed {run.seed}: {rate:g} payments per second and kills for {seconds:.0f} s"):
                telling = asyncio.create_task(self._tell())
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._pay(tasks, rate))
                        tasks.create_task(self._disturb(ends_at))
                        tasks.create_task(self._freeze())
                        tasks.create_task(self._guarded("settlement", self._settle_now_and_then(seconds)))
                finally:
                    telling.cancel()
            await self._rest("payments")
            with run.narrator.busy("the last settlement, the bank's statements, and millrace reconcile, twice"):
                await self._guarded("the last settlement", self._last_settlement())
            await self._rest("settlement")

    async def _open(self, clients: AsyncExitStack) -> None:
        run = self._run
        ann, bob = (
            issue_token(self._keys, who, ("operator",), limits.TOKEN_TTL_MAX_S, kind="staff") for who in OPERATORS
        )
        operators = await clients.enter_async_context(Operators(self._addresses.base_url, (ann, bob), run.books))
        run.operators = operators
        await operators.publish(self._processors)
        callers: list[Caller] = []
        for merchant in (*MERCHANTS, FROZEN_MERCHANT):
            token = issue_token(self._keys, merchant, ttl_s=limits.TOKEN_TTL_MAX_S)
            transport = LossyTransport(httpx.AsyncHTTPTransport(limits=POOL))
            client = await clients.enter_async_context(
                AsyncMillraceClient(self._addresses.base_url, token, transport=transport)
            )
            caller = Caller(merchant, token, client, run.acknowledged, run.counts)
            callers.append(caller)
            self._payers[merchant] = Payer(caller, self._processors, operators, self._addresses.vault_url)
            await self._subscribe(merchant, token)
        run.payouts = Payouts(callers[: len(MERCHANTS)], operators)
        run.freezer = Freezer(callers[-1], operators, self._carry_out, run.seed)

    async def _subscribe(self, merchant: str, token: str) -> None:
        shop = self._run.shop
        async with httpx.AsyncClient(base_url=self._addresses.base_url, trust_env=False) as http:
            answer = await answered(
                lambda: http.post(
                    "/v1/webhook_endpoints",
                    json={"url": shop.url(merchant)},
                    headers={"Authorization": f"Bearer {token}"},
                )
            )
        answer.raise_for_status()
        shop.open_for(merchant, answer.json()["result"]["secret"])

    # --- at once ---------------------------------------------------------------------------------------------

    async def _pay(self, tasks: asyncio.TaskGroup, rate: float) -> None:
        """Starts plans at the rate until nothing is killed any more, and until every kind came once."""
        room = asyncio.Semaphore(proof_limits.SOAK_PAYMENTS_OPEN_MAX)

        async def one(plan: Plan) -> None:
            try:
                await self._carry_out(plan)
            finally:
                room.release()

        began, number = time.monotonic(), 0
        while not self._is_calm.is_set() or number < len(KINDS):
            await room.acquire()
            if (pause := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            tasks.create_task(one(draw(self._run.seed, number)))
            number += 1

    async def _carry_out(self, plan: Plan) -> str:
        run = self._run
        run.started += 1
        intent_id, problem = await self._payers[plan.merchant].carry_out(plan)
        run.ended += 1
        run.counts.by_kind[plan.kind.name] = run.counts.by_kind.get(plan.kind.name, 0) + 1
        if intent_id:
            run.made[intent_id] = plan
        if problem:
            run.problems.append(problem)
        return intent_id

    async def _disturb(self, ends_at: float) -> None:
        try:
            if self._run.disturber is not None:
                await self._guarded("disturbances", self._run.disturber.disturb(ends_at))
        finally:
            self._is_calm.set()

    async def _freeze(self) -> None:
        if self._run.freezer is not None:
            await self._guarded("freezes", self._run.freezer.freeze_until(self._is_calm))

    async def _settle_now_and_then(self, seconds: float) -> None:
        """Settlements while payments go on and processes die; reconciled and repaired at once."""
        early = proof_limits.SOAK_SETTLEMENT_ROUNDS - 1
        for number in range(early):
            await asyncio.sleep(seconds / (early + 1))
            if number == 0 and self._run.operators is not None:
                await self._run.operators.reroute(self._processors)
            await self._settle()
            await self._repair()
            await self._pay_out()

    async def _settle(self) -> None:
        """Reports of two days, reconciled day by day: what one of them settles by half, the next one ends."""
        books = self._run.books
        await self._settlements.report()
        await run_reconcile(self._reconcile, books)
        books.problems += books.halves_not_found()
        await self._settlements.rest()
        await run_reconcile(self._reconcile, books)

    async def _pay_out(self) -> None:
        if self._run.payouts is not None:
            await self._run.payouts.round()

    async def _repair(self) -> None:
        if self._run.operators is not None:
            await self._run.operators.repair()

    async def _pay_victims(self, count: int) -> list[Victim]:
        """Plain payments of the merchants in turn, in every currency."""

        async def one(number: int) -> Victim | None:
            plan = Plan(
                number=number,
                kind=_PLAIN,
                merchant=MERCHANTS[number % len(MERCHANTS)],
                amount=proof_limits.SOAK_AMOUNT_MINOR_MIN + number,
                currency=CURRENCIES[number % len(CURRENCIES)],
                seed=f"{self._run.seed}:victim:{number}",
            )
            intent_id = await self._carry_out(plan)
            processor = self._payers[plan.merchant].processor_of(intent_id)
            return Victim(intent_id=intent_id, processor=processor, amount=plan.amount, currency=plan.currency)

        first, self._victims = self._victims, self._victims + count
        found = await asyncio.gather(*(one(first + n) for n in range(count)))
        return [one for one in found if one is not None]

    # --- afterwards ------------------------------------------------------------------------------------------

    async def _rest(self, after: str) -> None:
        """Nothing moves any more."""
        with self._run.narrator.busy(f"waiting until everything is final after the {after}"):
            took, unfinished = await all_final(self._addresses.postgres_reader_dsn, proof_limits.SOAK_SETTLE_WAIT_S)
        if unfinished:
            self._run.problems.append(unfinished)
        self._run.narrator.say(f"everything is final {took:.1f} s after the {after}")

    async def _last_settlement(self) -> None:
        run = self._run
        await self._settle()
        await self._pay_out()
        if run.payouts is not None:
            await run.payouts.race()
        statements = write_statements(run.stack.home, run.books, run.payouts.made if run.payouts else ())
        await run_reconcile(self._reconcile, run.books, statements)
        await self._repair()
        await reconcile_twice(self._reconcile, run.books)

    async def _guarded(self, what: str, act: Awaitable[None]) -> None:
        """What goes wrong is a problem of the run, not its end."""
        try:
            await act
        except (Unexpected, StackError, MillraceClientError, httpx.HTTPError, psycopg.Error, OSError) as error:
            self._run.problems.append(f"{what}: {str(error) or type(error).__name__}")

    async def _tell(self) -> None:
        run = self._run
        while True:
            await asyncio.sleep(proof_limits.SOAK_PROGRESS_INTERVAL_S)
            disturbed = len(run.disturber.done) if run.disturber else 0
            run.narrator.now(
                f"{run.ended} of {run.started} payments have ended, {disturbed} processes disturbed, "
                f"{run.acknowledged.count} answers acknowledged, {len(run.problems)} problems"
            )

"""The ingress's look at whose a card token is: few queries, and a verdict that holds for a bounded time only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ingress.http.store import Store
from ingress.payments.payment_methods import PaymentMethods
from schemas import errors
from schemas.payments import limits
from tests.eventually import patient
from tests.worlds.payments.vault_world import world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.worlds.payments.vault_world import VaultWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]


class CountingStore(Store):
    """The ingress's own store, which also counts what it is asked."""

    asked: int = 0

    async def rows(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.asked += 1
        return await super().rows(query, parameters)


def looked_at(
    world: VaultWorld,
    check: Callable[[PaymentMethods, CountingStore, list[float]], Awaitable[None]],
    *,
    is_there: bool = True,
) -> None:
    """Runs a check as the role millrace_ingress, with a clock that the check turns."""

    async def run() -> None:
        store, now = CountingStore(world.settings.addresses().postgres_dsns["millrace_ingress"]), [0.0]
        await store.open()
        if is_there:
            await store._pool.wait(patient(30))  # a caller would not wait for the first connection so long
        try:
            await check(PaymentMethods(store, lambda: now[0]), store, now)
        finally:
            await store.close()

    asyncio.run(run())


def with_method(token: object) -> dict[str, Any]:
    return {"payment_method": token, "amount": 1}


def test_many_are_few_queries(world: VaultWorld) -> None:
    """A thousand calls at once ask about two merchants' tokens in a handful of queries, each with its own answer."""
    one, two = world.holder(), world.holder()
    of_one, of_two = one.token(), two.token()

    async def check(methods: PaymentMethods, store: CountingStore, _: list[float]) -> None:
        calls = [(one.name, of_one), (one.name, of_two), (two.name, of_two), (two.name, of_one)] * 250
        found = await asyncio.gather(*(methods.refusals(merchant, [with_method(token)]) for merchant, token in calls))
        assert [refusal is None for (refusal,) in found] == [True, False, True, False] * 250
        assert store.asked <= 10

    looked_at(world, check)


def test_what_is_no_card_token_costs_no_query(world: VaultWorld) -> None:
    async def check(methods: PaymentMethods, store: CountingStore, _: list[float]) -> None:
        payloads = [with_method(t) for t in (None, "tok_sim_approve", "tok_x", "tok_" + "A" * 24, "tok_" + "a" * 25)]
        assert await methods.refusals("m", [*payloads, {"amount": 1}]) == [None] * 6
        assert store.asked == 0

    looked_at(world, check)


def test_a_verdict_holds_for_a_time_and_only_the_good_one(world: VaultWorld) -> None:
    """Own: not asked again within the bound; deleted: refused after it; foreign: asked every time, so it may become own."""
    holder = world.holder()
    token = holder.token()

    async def check(methods: PaymentMethods, store: CountingStore, now: list[float]) -> None:
        await methods.require_own(holder.name, with_method(token))
        assert (await asyncio.to_thread(holder.http.delete, f"/v1/tokens/{token}")).status_code == 200
        now[0] += limits.OWN_TOKENS_CACHED_S - 1
        await methods.require_own(holder.name, with_method(token))
        assert store.asked == 1
        now[0] += 2
        for tries in (2, 3):
            with pytest.raises(errors.InvalidCommand) as refused:
                await methods.require_own(holder.name, with_method(token))
            assert store.asked == tries
        assert [e["field"] for e in refused.value.errors] == ["payload.payment_method"]

    looked_at(world, check)


def test_without_the_database_nothing_is_let_through(world: VaultWorld) -> None:
    holder = world.holder()
    token = holder.token()

    async def check(methods: PaymentMethods, _: CountingStore, __: list[float]) -> None:
        with pytest.raises(errors.Unavailable):
            await methods.require_own(holder.name, with_method(token))

    database = world.rows("select current_database()")[0][0]
    world.rows(f"alter database {database} connection limit 0")  # whoever is no superuser is refused
    try:
        looked_at(world, check, is_there=False)
    finally:
        world.rows(f"alter database {database} connection limit -1")

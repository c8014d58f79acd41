"""A lease on keys of tenants: what is acknowledged is forgotten, and behind its end nothing is opened, whoever stood still."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from ingress.tenancy.leased_keys import LeasedKeys
from schemas import errors
from schemas.tenancy import limits
from sinks.tenancy.key_lease import KEPT, TAKEN, KeyLease

NOTHING_NEW = [(None, None)]


class Holder:
    """A process with a clock that a test goes on with."""

    def __init__(self) -> None:
        self.now, self.forgotten = 100.0, 0
        self.lease = KeyLease("0", self._forget, lambda: self.now)
        asking = self.lease.asking()
        assert asking.statement == TAKEN
        self.lease.answered(asking, [(4,)])
        self.forgotten = 0
        self.term = self.lease.term

    def _forget(self) -> None:
        self.forgotten += 1

    def may_open(self, tenant: str = "tn_a", term: int | None = None) -> bool:
        try:
            self.lease.require(tenant, self.term if term is None else term)
        except (errors.Unavailable, errors.KeyShredded):
            return False
        return True


@pytest.fixture
def holder() -> Holder:
    return Holder()


def test_a_shred_is_acknowledged_after_what_was_held_is_forgotten(holder: Holder) -> None:
    asking = holder.lease.asking()
    assert (asking.statement, asking.given["acked"]) == (KEPT, 4)
    assert holder.lease.answered(asking, [(5, "tn_a"), (6, "tn_b")])  # acknowledges at once
    assert holder.forgotten == 1
    assert holder.lease.asking().given["acked"] == 6
    with pytest.raises(errors.KeyShredded):
        holder.lease.require("tn_a", holder.term)
    assert holder.may_open("tn_c")
    assert not holder.lease.answered(holder.lease.asking(), NOTHING_NEW)


def test_a_lease_counts_from_before_it_was_asked_for(holder: Holder) -> None:
    asking = holder.lease.asking()
    holder.now += limits.KEY_LEASE_S - 1
    assert not holder.lease.answered(asking, NOTHING_NEW)
    assert holder.may_open()
    holder.now += 1
    assert not holder.may_open()


def test_who_stood_still_over_the_end_opens_nothing_of_before(holder: Holder) -> None:
    """Also with another lease: the mover may have counted the first as ended, and signed."""
    first, asking = holder.term, holder.lease.asking()
    holder.now += limits.KEY_LEASE_S
    assert holder.lease.answered(asking, NOTHING_NEW)  # comes late: it counted as ended
    assert (holder.forgotten, holder.may_open()) == (1, False)
    again = holder.lease.asking()
    assert (again.statement, again.given["holder"] == asking.given["holder"]) == (TAKEN, False)
    holder.lease.answered(again, [(9,)])
    assert (holder.may_open(term=first), holder.may_open(term=holder.lease.term)) == (False, True)
    assert holder.lease.asking().given["acked"] == 9


def test_a_database_that_knows_no_such_lease_is_asked_for_another(holder: Holder) -> None:
    """It was put back from before."""
    assert holder.lease.answered(holder.lease.asking(), [])
    assert (holder.forgotten, holder.may_open(), holder.lease.asking().statement) == (1, False, TAKEN)


def test_an_ingress_goes_on_without_a_lease_and_takes_one_when_it_can() -> None:
    """A database that takes no writes can be read: what has no payload is served."""

    class Rows:
        def __init__(self) -> None:
            self.refuses = True

        async def rows(self, _statement: str, _given: object) -> list[tuple[int]]:
            if self.refuses:
                raise psycopg.errors.ReadOnlySqlTransaction
            return [(4,)]

    async def asked() -> None:
        store: Any = Rows()
        keys = LeasedKeys(store, 0, lambda: None)
        assert await keys.term() is None
        with pytest.raises(errors.Unavailable):
            keys.require("tn_a", None)
        store.refuses = False
        keys.require("tn_a", await keys.term())

    asyncio.run(asked())

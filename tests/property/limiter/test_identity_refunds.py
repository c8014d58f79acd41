"""Which charges of one identity are given back: all but the earliest, whatever comes late, twice or in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflows.limiter.identities.fold import IdentityWindow
from dataflows.limiter.identities.reader import Arrived
from limiter.stream.charges import CHARGE_TYPE, ChargeBlock, ChargedLease
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_US = limits.LIMIT_IDENTITY_MS * 1_000
KEPT_US = WINDOW_US + limits.LIMIT_REFUND_LATE_S * 1_000_000
BUCKETS = [f"{n:032x}" for n in (1 << 64, 5 << 64 | 3, 1 << 127)]
START_US = 10**15

One = tuple[int, int, int, int, int]  # bucket, gateway's lease, identity, cost, time after the start


def block(charges: Sequence[One]) -> ChargeBlock:
    leases = sorted({(lease, bucket) for bucket, lease, *_ in charges})
    found = np.zeros(len(charges), CHARGE_TYPE)
    for at, (bucket, lease, identity, cost, after) in enumerate(charges):
        found[at] = (identity, START_US + after, 77, leases.index((lease, bucket)), cost)
    return ChargeBlock(
        [ChargedLease(f"g{lease}.{bucket}", BUCKETS[bucket]) for lease, bucket in leases], found.tobytes()
    )


def refunds(
    window: IdentityWindow, blocks: Sequence[Sequence[One]], arrived_us: Sequence[int] | None = None, first: int = 0
) -> set[tuple[str, int]]:
    found = set()
    for at, charges in enumerate(blocks):
        arrived = START_US if arrived_us is None else arrived_us[at]
        for refund in window.take([Arrived(first + at, arrived, block(charges))]):
            assert refund.charge.limit_key == 77
            found.add((refund.charge.lease_id, refund.charge.identity))
    return found


CHARGES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from([0, 1, 2**64 - 1, 2**63]),
        st.integers(1, 2),
        st.integers(0, WINDOW_US - 1),
    ),
    max_size=24,
    unique_by=lambda one: one[:3],  # a gateway charges an identity once
)


@given(charges=CHARGES, data=st.data())
def test_all_but_the_earliest_are_given_back_in_whatever_order_they_come(
    charges: list[One], data: st.DataObject
) -> None:
    """Cut into blocks anyhow, some of them twice, over any number of segments."""
    again = data.draw(st.lists(st.sampled_from(charges), max_size=6)) if charges else []
    order = data.draw(st.permutations([*charges, *again]))
    cut = data.draw(st.integers(1, 5))
    blocks = [order[at : at + cut] for at in range(0, len(order), cut)]
    arrived = [START_US + at * data.draw(st.sampled_from([0, 2_000_000, 4_000_000])) for at in range(len(blocks))]
    arrived.sort()
    first: dict[tuple[int, int, int], tuple[int, str]] = {}
    for bucket, lease, identity, cost, after in charges:
        place, charge = (bucket, identity, cost), (after, f"g{lease}.{bucket}")
        first[place] = min(first.get(place, charge), charge)
    expected = {
        (f"g{lease}.{bucket}", identity)
        for bucket, lease, identity, cost, _ in charges
        if first[bucket, identity, cost][1] != f"g{lease}.{bucket}"
    }
    assert refunds(IdentityWindow(), blocks, arrived) == expected


@pytest.mark.parametrize(("after", "is_found"), [(WINDOW_US - 1, True), (WINDOW_US, False)])
def test_past_the_window_an_identity_is_a_new_one(after: int, is_found: bool) -> None:
    assert (refunds(IdentityWindow(), [[(0, 0, 9, 1, 0)], [(0, 1, 9, 1, after)]]) != set()) is is_found


def test_a_chain_is_counted_from_what_stays_charged() -> None:
    """0 s, 50 s, 100 s: the third one comes 100 s after the one that was charged."""
    chain = [[(0, at, 9, 1, at * 50_000_000)] for at in range(3)]
    assert refunds(IdentityWindow(), chain) == {("g1.0", 9)}


def test_another_cost_is_another_request_and_nothing_is_nothing() -> None:
    assert refunds(IdentityWindow(), [[(0, 0, 9, 1, 0), (0, 1, 9, 2, 1)]]) == set()
    assert refunds(IdentityWindow(), [[(0, 0, 9, 0, 0), (0, 1, 9, 0, 1)]]) == set()


@pytest.mark.parametrize(("apart_us", "is_found"), [(KEPT_US, True), (KEPT_US + 1, False)])
def test_what_arrives_too_late_meets_nothing(apart_us: int, is_found: bool) -> None:
    """And what nobody can meet any more is forgotten, and not read again."""
    window = IdentityWindow()
    found = refunds(window, [[(0, 0, 9, 1, 0)], [(0, 1, 9, 1, 1)]], [START_US, START_US + apart_us])
    assert (found != set()) is is_found
    assert len(window) == 2 if is_found else 1
    assert window.resume_offset(7) == (0 if is_found else 1)


def test_reading_again_from_the_position_finds_the_same() -> None:
    blocks = [[(0, at % 3, at // 2, 1, at)] for at in range(40)]
    arrived = [START_US + at * 10_000_000 for at in range(40)]
    window = IdentityWindow()
    for at in range(40):
        refunds(window, [blocks[at]], [arrived[at]], at)
        position = window.resume_offset(at + 1)
    assert position > 10
    again = IdentityWindow()
    later = [*blocks[position:], [(0, 1, 19, 1, 60)]]
    assert ("g1.0", 19) in refunds(again, later, [*arrived[position:], arrived[-1]])
    assert len(again) == len(window) + 1


def test_too_many_make_room_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is forgotten meets nothing: it stays charged."""
    monkeypatch.setattr(limits, "LIMIT_REFUND_CHARGES_MAX", 50)
    window = IdentityWindow()
    for at in range(8):
        refunds(window, [[(0, 0, at * 100 + n, 1, n) for n in range(3)]], [START_US + at * 4_000_000])
    assert (len(window), window.forgotten) == (12, 12)
    assert refunds(window, [[(0, 1, 302, 1, 9), (0, 1, 702, 1, 9)]], [START_US + 32_000_000]) == {("g1.0", 702)}


def test_names_of_leases_take_room_and_each_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hot leases come with every block; very many leases of a charge each are more bytes than their charges."""
    monkeypatch.setattr(limits, "LIMIT_REFUND_CHARGES_MAX", 100)
    hot, many = IdentityWindow(), IdentityWindow()
    for at in range(40):
        refunds(hot, [[(0, 0, at, 1, at)]], [START_US + at])
        refunds(many, [[(0, at, at, 1, at)]], [START_US + at])
    assert (len(hot), hot.forgotten) == (40, 0)
    assert 0 < len(many) < 10
    assert len(many) + many.forgotten == 40


def test_blocks_that_are_read_together_are_compared_too() -> None:
    """Among themselves, and with those before."""
    window = IdentityWindow()
    assert refunds(window, [[(0, 0, 9, 1, 0)]]) == set()
    more = [[(0, 1, 9, 1, 1), (0, 1, 8, 1, 1)], [], [(0, 2, 8, 1, 2), (1, 2, 9, 1, 2)]]
    found = window.take([Arrived(at, START_US + 9_000_000, block(charges)) for at, charges in enumerate(more)])
    assert {(each.charge.lease_id, each.charge.identity) for each in found} == {("g1.0", 9), ("g2.0", 8)}
    assert window.take([]) == []

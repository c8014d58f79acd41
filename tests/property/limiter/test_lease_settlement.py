"""Reports of leases in any order, twice and lost: what is settled adds up, and is never less than what was spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dataflows.limiter.leases.fold import OpenLeases, assumed, merged, settlement
from dataflows.limiter.leases.reader import _Place
from limiter.stream.lease_book import LeaseReport, unreported_max
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDS_US = 1_000_000_000
FIRST_US = ENDS_US - 900_000  # when Kafka has the first report
LIFE_AND_GRACE_US = limits.LIMIT_LEASE_MS * 1_000 + int(limits.LIMIT_LEASE_GRACE_S * 1_000_000)
LATER_US = ENDS_US + 60_000_000


def report(granted: int = 80, **said: int | bool) -> LeaseReport:
    return LeaseReport(
        lease_id="g.1",
        key_hash="0" * 32,
        policy_id="pl_a",
        policy_version=1,
        epoch=0,
        terms=b"",
        granted=granted,
        ends_at_us=ENDS_US,
        **said,  # type: ignore[arg-type] # what a report says
    )


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[LeaseReport], int]:
    """Everything that a gateway said of one lease, and what it had spent when its host was gone: within its rule."""
    granted = draw(st.integers(1, 300))
    costs = sorted(draw(st.lists(st.integers(0, granted), max_size=6)))
    reports = [report(granted, allowed_cost=cost, allowed_n=cost, seq=n) for n, cost in enumerate([0, *costs])]
    known = reports[-1].allowed_cost
    spent = draw(st.integers(known, min(granted, known + unreported_max(granted))))
    end = draw(st.sampled_from(["gone", "closed", "returned"]))
    if end != "gone":
        last = report(granted, allowed_cost=spent, allowed_n=spent, seq=99, closed=True)
        reports.append(last)
        if end == "returned":
            reports.append(structs.replace(last, seq=100, settled=True))
    return reports, spent


def folded(reports: Sequence[LeaseReport]) -> LeaseReport:
    found = reports[0]
    for each in reports[1:]:
        found = merged(found, each)
    return found


@given(lives(), st.data())
def test_any_order_and_any_repetition_says_the_same(life: tuple[list[LeaseReport], int], data: st.DataObject) -> None:
    reports, _ = life
    again = reports + data.draw(st.lists(st.sampled_from(reports), max_size=5))
    assert folded(data.draw(st.permutations(again))) == folded(reports)


@given(lives(), st.booleans())
def test_what_is_settled_adds_up_and_covers_what_was_spent(life: tuple[list[LeaseReport], int], held: bool) -> None:
    reports, spent = life
    last = folded(reports)
    found = settlement(last, held=held)
    assert found.granted == found.reported + found.assumed + found.released
    assert min(found.reported, found.assumed, found.released) >= 0
    assert spent <= found.reported + found.assumed
    assert last.allowed_cost + assumed(last) >= spent  # what the store is told


@given(lives(), st.data())
def test_a_restart_at_the_resume_offset_sees_every_open_lease_again(
    life: tuple[list[LeaseReport], int], data: st.DataObject
) -> None:
    """Killed after any report: whoever goes on at the position ends in the same state."""
    reports, _ = life
    killed_after = data.draw(st.integers(0, len(reports)))
    before = OpenLeases()
    done = [before.take(each, offset, FIRST_US + offset) for offset, each in enumerate(reports[:killed_after])]
    after, first = OpenLeases(), before.resume_offset(killed_after)
    again = [after.take(each, first + n, FIRST_US + first + n) for n, each in enumerate(reports[first:])]
    whole = OpenLeases()
    expected = [whole.take(each, offset, FIRST_US + offset) for offset, each in enumerate(reports)]
    assert {each for each in done + again if each} == {each for each in expected if each}
    assert after.due(LATER_US, 10) == whole.due(LATER_US, 10)


def test_a_lease_is_due_only_when_everything_that_was_said_of_it_is_read() -> None:
    leases = OpenLeases()
    assert leases.take(report(allowed_cost=3), 7, FIRST_US) is None
    assert leases.due(ENDS_US, 10) == []
    assert leases.resume_offset(9) == 7
    (due,) = leases.due(LATER_US, 10)
    assert due.allowed_cost + assumed(due) == 3 + 10
    leases.forget(due.lease_id)
    assert (leases.resume_offset(9), len(leases), leases.oldest_end_us()) == (9, 0, None)


@given(st.integers(-3_600_000_000, 3_600_000_000), st.integers(0, 1_000_000))
def test_no_clock_of_a_gateway_settles_a_lease_that_it_spends(skew_us: int, further_us: int) -> None:
    """By Kafka's clock: granted before its first report arrived, it lives no longer than its life after that."""
    leases = OpenLeases()
    said = structs.replace(report(), ends_at_us=ENDS_US + skew_us)
    leases.take(said, 7, FIRST_US)
    leases.take(structs.replace(said, allowed_cost=3), 8, FIRST_US + further_us)
    assert leases.due(FIRST_US + LIFE_AND_GRACE_US - 1, 10) == []
    assert len(leases.due(FIRST_US + LIFE_AND_GRACE_US, 10)) == 1
    assert leases.oldest_end_us() == leases.over_us("g.1") == FIRST_US + limits.LIMIT_LEASE_MS * 1_000


def test_kafkas_clock_is_never_thought_further_than_it_is() -> None:
    """What is read late, and again, does not set it back, and by a topic without news it goes on."""
    place = _Place(0)
    assert place.kafka_at(100.0) == 0
    place.heard(5_000_000, 100.0)
    assert place.kafka_at(103.0) == 8_000_000
    place.heard(6_000_000, 104.0)  # it lay there for three seconds
    assert place.kafka_at(104.0) == 9_000_000
    place.heard(9_500_000, 104.0)
    assert place.kafka_at(103.0) == 8_500_000


def test_the_end_of_a_partition_is_asked_for_often_while_a_lease_is_open_and_rarely_else() -> None:
    place = _Place(0)
    assert place.is_due(100.0, is_open=False)
    place.asked_at = 100.0
    soon, late = 100.0 + limits.LIMIT_LEASE_WATERMARK_S, 100.0 + limits.LIMIT_LEASE_WATERMARK_IDLE_S
    assert [place.is_due(at, is_open=True) for at in (100.0, soon, late)] == [False, True, True]
    assert [place.is_due(at, is_open=False) for at in (100.0, soon, late)] == [False, False, True]
    place.end_then = 7  # not read so far yet
    assert not place.is_due(late, is_open=True)


def test_a_returned_lease_is_nobody_elses_business() -> None:
    leases = OpenLeases()
    leases.take(report(allowed_cost=3), 7, FIRST_US)
    found = leases.take(report(allowed_cost=5, closed=True, settled=True), 8, FIRST_US)
    assert found is not None
    assert (found.reason, found.reported, found.assumed, found.released) == ("returned", 5, 0, 75)
    assert leases.due(LATER_US, 10) == []

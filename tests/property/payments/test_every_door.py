"""Facts of one payment through any doors, in any number of copies, up to 14 days late: always the same end.

Metamorphic: a history in which every fact is told once and at once is the measure; whatever else the doors do must end in
its state, its balances and its events (``Move`` says when events are the same; in each history alone, they say all). The commands are made by the code of each
door, their identities kept by the owner's own fold; only time and transport are virtual. Source: traps 5 and 6.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import event, given, settings
from hypothesis import strategies as st

from schemas.payments.facts import FAILED_LATER
from tests.gate import examples
from tests.property.payments.doors import DOORS, DOUBTS, Plan, Truth, World

_CLOCK_S: Final = 14 * 86_400
_DISPUTES: Final = {
    "lost": (("dis_1", "needs_response", "none"), ("dis_1", "needs_response", "withdrawn"), ("dis_1", "lost", "withdrawn")),
    "won": (("dis_2", "under_review", "withdrawn"), ("dis_2", "won", "reinstated")),
}  # fmt: skip
delays = st.one_of(st.just(0), st.integers(0, 60), st.integers(0, _CLOCK_S))


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    """Any of the things that may happen to a payment with two refunds."""
    disputes = [fact for chain in _DISPUTES.values() for fact in chain[: draw(st.integers(0, len(chain)))]]
    outcome = st.sampled_from(["refunded", "failed", FAILED_LATER])
    manual = draw(st.booleans())
    return Truth(
        manual=manual,
        acts=draw(st.booleans()),
        expires=manual and draw(st.integers(0, 3)) == 0,
        refunds=(draw(outcome), draw(outcome)),
        disputes=tuple(disputes),
        finding=draw(st.sampled_from(["matched", "short", "over", "duplicate"])),
        lines_of_refunds=draw(st.booleans()),
    )


@st.composite
def plans(draw: st.DrawFn, truth: Truth) -> Plan:
    """Any doors, any copies, any delays; a fact that a settlement line tells may have no other door."""

    def told(doors: tuple[str, ...], least: int) -> list[tuple[str, int]]:
        return draw(st.lists(st.tuples(st.sampled_from(doors), delays), min_size=least, max_size=5))

    capture = 2 if truth.manual else 1
    tellings = {f"captured {capture}": told(DOORS["outcome"], 0)}
    if truth.manual:  # that a hold expired says that there was one
        tellings["authorized 1"] = told(DOORS["outcome"], 0 if truth.expires else 1)
        tellings["voided 1"] = told(DOORS["outcome"], 1)
    tellings["requires_action 1"] = told(DOORS["outcome"], 0)
    for number, outcome in enumerate(truth.refunds, capture + 1):
        has_line = truth.lines_of_refunds and outcome != "failed"
        status = "failed" if outcome == "failed" else "refunded"
        tellings[f"{status} {number}"] = told(DOORS["outcome"], 0 if has_line else 1)
        tellings[f"{FAILED_LATER} {number}"] = told(DOORS[FAILED_LATER], 1)
        tellings[f"line {number}"] = told(("settlement",), 1)
    tellings[f"line {capture}"] = told(("settlement",), 1)
    tellings[f"second line {capture}"] = told(("settlement",), 1)
    for dispute in truth.disputes:
        tellings[" ".join(dispute)] = told(("webhook",), 1)
    doubt = st.tuples(st.integers(1, capture + 2), st.sampled_from(DOUBTS), delays)
    return Plan(tellings, draw(st.lists(doubt, max_size=4)))


@settings(max_examples=examples(60, 250), deadline=None, print_blob=True)
@given(st.data())
def test_any_doors_in_any_order_and_any_delay_end_alike(data: st.DataObject) -> None:
    truth = data.draw(truths())
    measure = World(truth, Plan()).run()
    world = World(truth, data.draw(plans(truth))).run()
    event(f"copies {min(world.copies, 8)}")
    assert end(world) == end(measure)
    balances, expected = world.balances, measure.balances
    assert (+balances, -balances) == (+expected, -expected)
    assert world.moves == measure.moves
    for told in (world, measure):
        assert_events_say_all(told)
    identities = {known for known in world.known if known[1].split(":")[1] not in DOUBTS}
    assert identities <= measure.known.keys(), "every door gives a fact the same identity"


def assert_events_say_all(world: World) -> None:
    """Whoever hears the events alone knows every row as it is and all of the ledger, each posting once."""
    assert world.told == world.rows
    assert [txn for event in world.events for txn in event.body["ledger_txns"]] == world.ledger
    references = [txn["reference"] for txn in world.ledger]
    assert len(references) == len(set(references)), "a fact posts once"
    assert [event.seq for event in world.events] == list(range(1, len(world.events) + 1))
    assert [event.version for event in world.events] == list(range(1, world.payment.intent.version + 1))


def end(world: World) -> dict[str, Any]:
    """Everything but versions and times: how many facts were stale depends on their order."""
    payment = world.payment
    intent = payment.intent
    return {
        "intent": (intent.state, intent.amount_received, intent.amount_capturable, intent.amount_refunded,
                   intent.amount_disputed, intent.amount_pending, intent.next_action, intent.authorized_until,
                   intent.cancellation_reason),
        "attempts": [(a.status, a.settled_line, a.error_code, a.provider_ref) for _, a in sorted(payment.attempts.items())],
        "refunds": {r.id: (r.state, r.failure_reason, r.pending_reason) for r in payment.refunds.values()},
        "disputes": {d.id: (d.state, d.funds, d.fee, d.evidence_due_by) for d in payment.disputes.values()},
    }  # fmt: skip


def test_the_measure_itself_is_what_happened() -> None:
    """Reckoned by hand: one refund paid, one returned, one dispute lost, one won, the line 7 short."""
    truth = Truth(
        manual=True,
        refunds=("refunded", FAILED_LATER),
        disputes=(*_DISPUTES["lost"], *_DISPUTES["won"]),
        finding="short",
        lines_of_refunds=True,
    )
    world = World(truth, Plan()).run()
    assert end(world)["intent"] == ("succeeded", 10_000, 0, 1_500, 2_000, 0, None, None, None)
    assert sorted(state for state, *_ in end(world)["refunds"].values()) == ["failed", "succeeded"]
    assert world.balances["merchant_available:m_1:USD"] == -(10_000 - 150 - 1_500 - 2_000)
    assert world.balances["recon_suspense:simulator:USD"] == 7
    assert world.balances["refund_in_flight:simulator:USD"] == world.balances["auth_hold:simulator:USD"] == 0
    assert len(world.moves) == len(world.ledger) == 13
    assert_events_say_all(world)

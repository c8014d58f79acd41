"""The worker on real servers: every card's behaviour ends at the truth, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from schemas import identity
from schemas.fields import validation
from schemas.payments.operations import OPERATIONS
from tests.eventually import becomes, eventually
from tests.worlds.payments.attempts_world import AttemptsWorld, new_attempt, trace_of, world

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def working(world: AttemptsWorld) -> Iterator[AttemptsWorld]:
    """A simulator and one worker."""
    world.start("simulator")
    world.start("processor_worker")
    yield world
    world.end_all()


def test_an_approved_attempt_becomes_one_complete_fact(working: AttemptsWorld) -> None:
    """The fact carries its derived identity, the echo and the trace; the row is done when the owner says so."""
    attempt = new_attempt()
    working.publish(attempt)
    fact = working.fact(attempt, "captured")
    assert fact.scope == "processor:simulator"
    assert fact.idempotency_key == f"{attempt['operation_id']}:captured"
    assert (fact.aggregate_key, fact.reply_to, fact.deadline_at) == (attempt["intent_id"], -1, 0)
    assert fact.trace_id == trace_of(attempt)
    assert (fact.payload["amount"], fact.payload["currency"]) == (1_234, "USD")
    template = OPERATIONS["record_attempt_outcome"].template
    payload = validation.hashed(OPERATIONS["record_attempt_outcome"].payload, fact.payload)
    assert fact.request_hash == identity.request_hash(template, attempt["intent_id"], payload)
    assert working.row_reaches(attempt, "reported")["outcome"] == "captured"
    working.settle(attempt, "captured")
    working.row_reaches(attempt, "done")
    assert working.effects()[attempt["operation_id"]] == 1


#: what is told about a card of each kind, in order
STORIES = {
    "tok_sim_decline": ["declined"],
    "tok_sim_slow": ["captured"],
    "tok_sim_timeout_after_commit": ["unknown", "captured"],
    "tok_sim_error_before_commit": ["unknown", "captured"],
    "tok_sim_error_after_commit": ["unknown", "captured"],
    "tok_sim_wrong_amount": ["captured"],
    "tok_sim_garbage": ["unknown", "unknown"],  # and more, much later
}


@pytest.fixture(scope="module")
def cards(working: AttemptsWorld) -> dict[str, dict[str, Any]]:
    """An attempt with a card of each kind, all under way at once."""
    attempts = {token: new_attempt(token) for token in STORIES}
    working.publish(*attempts.values())
    return attempts


@pytest.mark.parametrize("token", [t for t in STORIES if t != "tok_sim_garbage"])
def test_a_card_of_every_kind_ends_at_the_truth(
    working: AttemptsWorld, cards: dict[str, dict[str, Any]], token: str
) -> None:
    """Rule: after an unknown outcome the operation is queried or retried with the same identity, one effect."""
    attempt, expected = cards[token], STORIES[token]
    working.fact(attempt, expected[-1], within_s=15)
    assert working.statuses(attempt, len(expected)) == expected
    working.settle(attempt, expected[-1])
    working.row_reaches(attempt, "done")
    assert working.effects()[attempt["operation_id"]] == (0 if token == "tok_sim_decline" else 1)


def test_the_echoed_amount_is_passed_on_as_it_is(working: AttemptsWorld) -> None:
    """Whether a wrong amount matters is decided by the owner; the worker hides nothing. Review closes the row."""
    attempt = new_attempt("tok_sim_wrong_amount")
    working.publish(attempt)
    assert working.fact(attempt, "captured").payload["amount"] == 1_235
    working.settle(attempt, "manual_review")
    assert working.row_reaches(attempt, "review")["outcome"] == "manual_review"


def test_garbage_is_never_believed(working: AttemptsWorld, cards: dict[str, dict[str, Any]]) -> None:
    """Half a truth with noise is unknown, on a send and on a query, each doubt a fact of its own."""
    attempt = cards["tok_sim_garbage"]
    becomes(lambda: working.statuses(attempt), STORIES["tok_sim_garbage"], 15)
    keys = [fact.idempotency_key for fact in working.facts(attempt)]
    assert keys == [f"{attempt['operation_id']}:unknown:{n}" for n in (1, 2)]
    row = working.row_reaches(attempt, "waiting")
    assert (row["unknown_count"], row["in_doubt"]) == (2, True)
    working.settle(attempt, "captured")  # as by a webhook: nothing is asked any more
    working.row_reaches(attempt, "done")


def test_authorize_capture_and_void_pass_their_parent(working: AttemptsWorld) -> None:
    """A capture that is not final leaves a hold that a void releases."""
    hold = new_attempt(kind="authorize", amount=10_000)
    working.publish(hold)
    parent = working.fact(hold, "authorized").payload["provider_ref"]
    capture = hold | _next(hold, 2, kind="capture", amount=6_000, final=False, parent_ref=parent)
    working.publish(capture)
    working.fact(capture, "captured")
    void = hold | _next(hold, 3, kind="void", amount=4_000, parent_ref=parent)
    working.publish(void)
    assert working.fact(void, "voided").payload["amount"] == 4_000


def test_duplicate_events_make_one_call(working: AttemptsWorld) -> None:
    """An owner that takes over publishes again: the same attempt, in one batch and later."""
    attempt = new_attempt()
    working.publish(attempt, attempt, attempt)
    working.fact(attempt, "captured")
    working.publish(attempt)
    working.settle(attempt, "captured")
    row = working.row_reaches(attempt, "done")
    assert row["send_count"] == 1 + working.statuses(attempt).count("unknown")
    assert working.statuses(attempt, 1) == ["captured"]


def test_an_attempt_that_is_settled_already_is_not_carried_out(working: AttemptsWorld) -> None:
    """A stream read from its beginning repeats history, and history is not done again."""
    attempt = new_attempt()
    working.publish(attempt | {"status": "captured"}, attempt)
    assert working.row_reaches(attempt, "done")["send_count"] == 0
    assert working.effects()[attempt["operation_id"]] == 0


def test_an_invalid_operation_has_definitively_failed(working: AttemptsWorld) -> None:
    """The processor refuses a capture without a parent for good: failed, not unknown."""
    attempt = new_attempt(kind="capture")
    working.publish(attempt)
    assert working.fact(attempt, "failed").payload["error_code"] == "invalid_operation"


def test_an_overdue_fact_is_told_again_with_the_same_identity(working: AttemptsWorld) -> None:
    """A fact whose event does not come back is repeated, and past the schedule a person sees the row."""
    attempt = new_attempt()
    working.publish(attempt)
    working.row_reaches(attempt, "reported")
    _due_now(working, attempt)
    first, again = eventually(lambda: len(f := working.facts(attempt)) == 2 and f)
    assert (first.idempotency_key, first.request_hash) == (again.idempotency_key, again.request_hash)
    _due_now(working, attempt, report_count=1_000)
    working.row_reaches(attempt, "review")
    working.settle(attempt, "captured")
    working.row_reaches(attempt, "done")


def test_many_attempts_with_two_workers_are_each_carried_out_once(working: AttemptsWorld) -> None:
    """Several workers share the work; more work than slots waits in the table and is swept."""
    second = working.start("processor_worker")
    attempts = [new_attempt() for _ in range(600)]
    working.publish(*attempts)
    wanted = {f"{a['operation_id']}:captured" for a in attempts}
    eventually(lambda: wanted <= {f.idempotency_key for f in working.all_facts()}, 30)
    assert working.end(second) == 0
    effects = working.effects()
    assert all(effects[a["operation_id"]] == 1 for a in attempts)
    mine = {a["operation_id"] for a in attempts}
    told = [f for f in working.all_facts() if f.payload["operation_id"] in mine]
    # so many at once that calls may take longer than they may last: each of those is a doubt, then asked for
    assert {f.idempotency_key for f in told if f.payload["error_code"] != "timeout"} == wanted


def _next(attempt: dict[str, Any], number: int, **changes: Any) -> dict[str, Any]:
    operation_id = identity.operation_id(attempt["intent_id"], number)
    return {"attempt": number, "operation_id": operation_id, **changes}


def _due_now(world: AttemptsWorld, attempt: dict[str, Any], report_count: int = 0) -> None:
    with world.database() as connection:
        connection.execute(
            "update attempt_dispatch set next_at = now(), report_count = %s where operation_id = %s",
            (report_count, attempt["operation_id"]),
        )

"""Refund attempts and facts that come by another door: carried out like any attempt, once, and then left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import becomes, eventually
from tests.worlds.payments.attempts_world import AttemptsWorld, new_attempt, next_attempt, world

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


def captured(world: AttemptsWorld, token: str = "tok_sim_approve") -> dict[str, Any]:
    """A purchase that the processor captured, as the owner knows it then."""
    attempt = new_attempt(token)
    world.publish(attempt)
    ref = world.fact(attempt, "captured", within_s=15).payload["provider_ref"]
    settled = attempt | {"status": "captured", "provider_ref": ref}
    world.publish(settled)
    return settled


def refund_of(attempt: dict[str, Any], number: int, amount: int) -> dict[str, Any]:
    return next_attempt(
        attempt,
        number,
        kind="refund",
        status="created",
        amount=amount,
        parent_ref=attempt["provider_ref"],
        provider_ref=None,
    )


def test_a_refund_is_carried_out_and_told_once(working: AttemptsWorld) -> None:
    """Identity, echo and the processor's own reference, as with any attempt; done when the owner says so."""
    paid = captured(working)
    refund = refund_of(paid, 2, 1_000)
    working.publish(refund, refund)
    fact = working.fact(refund, "refunded")
    assert fact.idempotency_key == f"{refund['operation_id']}:refunded"
    assert (fact.payload["amount"], fact.payload["currency"], fact.payload["error_code"]) == (1_000, "USD", None)
    assert fact.payload["provider_ref"]
    working.settle(refund, "refunded")
    assert working.row_reaches(refund, "done")["outcome"] == "refunded"
    assert working.statuses(refund, 1) == ["refunded"]
    assert working.effects()[refund["operation_id"]] == 1


def test_a_refund_that_the_processor_refuses_says_why(working: AttemptsWorld) -> None:
    """Past the cap: declined. Of something that was never captured: failed. Both definitive, with their code."""
    paid = captured(working)
    over, foreign = refund_of(paid, 2, 1_235), refund_of(paid, 3, 5) | {"parent_ref": "sim_nothing"}
    working.publish(over, foreign)
    assert working.fact(over, "declined").payload["error_code"] == "amount_exceeds_refundable"
    assert working.fact(foreign, "failed").payload["error_code"] == "unknown_capture"


@pytest.mark.parametrize("token", ["tok_sim_timeout_after_commit", "tok_sim_error_before_commit"])
def test_a_refund_in_doubt_ends_at_the_truth_under_its_one_identity(working: AttemptsWorld, token: str) -> None:
    """Rule: after an unknown outcome the operation is queried or retried, never another refund."""
    refund = refund_of(captured(working, token), 2, 34)
    working.publish(refund)
    working.fact(refund, "refunded", within_s=15)
    assert working.statuses(refund, 2) == ["unknown", "refunded"]
    assert working.effects()[refund["operation_id"]] == 1


def test_one_event_about_two_attempts_concerns_both(working: AttemptsWorld) -> None:
    """A late capture of a canceled payment makes its refund in the same commit: that is done, this is carried out."""
    charge = new_attempt()
    working.publish(charge)
    ref = working.fact(charge, "captured").payload["provider_ref"]
    late = charge | {"status": "captured", "provider_ref": ref}
    refund = refund_of(late, 2, 1_234)
    working.publish_with_cause(refund, caused_by=late)
    working.row_reaches(charge, "done")
    working.fact(refund, "refunded")


def test_what_only_a_webhook_tells_ends_the_asking(working: AttemptsWorld) -> None:
    """No answer ever comes; when the owner has the fact by another door the row is done and nothing is called again."""
    attempt = new_attempt("tok_sim_webhook_only")
    working.publish(attempt)
    working.fact(attempt, "unknown")
    with working.database() as connection:  # due in two seconds, which may be over before the owner's event is read
        postponed = "update attempt_dispatch set next_at = now() + interval '1 hour' where operation_id = %s and status = 'waiting'"
        eventually(lambda: connection.execute(postponed.encode(), (attempt["operation_id"],)).rowcount)
    row = working.row_reaches(attempt, "waiting")
    working.settle(attempt, "captured")
    done = working.row_reaches(attempt, "done")
    assert (done["outcome"], done["send_count"]) == ("captured", row["send_count"])
    with working.database() as connection:  # were it due, the next sweep would take it
        connection.execute(
            "update attempt_dispatch set next_at = now() where operation_id = %s", (attempt["operation_id"],)
        )
    other = captured(working)
    working.row_reaches(other, "done")
    assert working.row_reaches(attempt, "done")["send_count"] == row["send_count"]
    assert set(working.statuses(attempt)) == {"unknown"}
    assert working.effects()[attempt["operation_id"]] == 1


def test_a_fact_that_a_webhook_told_first_is_told_at_most_once_more(working: AttemptsWorld) -> None:
    """The event is there before the answer: the row is done at once and the fact is never repeated."""

    def answered_late() -> dict[str, Any] | None:
        made = new_attempt("tok_sim_slow")
        working.publish(made)
        becomes(lambda: working.effects()[made["operation_id"]], 1)
        working.settle(made, "captured")
        working.row_reaches(made, "done")
        (first,) = eventually(lambda: working.statuses(made)[:1])
        return made if first == "captured" else None  # the machine slept, and the call ended before its answer came

    attempt = eventually(answered_late, 60)  # the answer comes after all; to the owner it is the same fact
    with working.database() as connection:
        connection.execute(
            "update attempt_dispatch set next_at = now() where operation_id = %s", (attempt["operation_id"],)
        )
    working.row_reaches(captured(working), "done")
    row = working.row_reaches(attempt, "done")
    assert (row["report_count"], working.statuses(attempt)) == (0, ["captured"])

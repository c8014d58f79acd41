"""Workers are killed, frozen and cut off: one effect at the processor, and its definitive fact arrives."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dataflows.payments.attempts import schedule
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.gate import matrix
from tests.worlds.payments.attempts_world import AttemptsWorld, is_ready, new_attempt, next_attempt, world

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]

FAIL_POINTS = (
    "attempt_after_lease",
    "attempt_after_send",
    "attempt_after_answer_before_report",
    "attempt_after_report",
)
# The lease of the dead, its place in the consumer group, and a restart.
_TAKEN_OVER_WITHIN_S = payments_limits.ATTEMPT_LEASE_MS / 1_000 + sinks_limits.OWNER_SESSION_TIMEOUT_MS / 1_000 + 10


@pytest.fixture(autouse=True)
def nothing_stays(world: AttemptsWorld) -> Iterator[None]:
    """What a test started ends with it, however it ends: a worker of one test would do the work of the next."""
    yield
    world.end_all()


@pytest.fixture
def served(world: AttemptsWorld) -> AttemptsWorld:
    """A simulator; each test starts its own workers."""
    world.start("simulator")
    return world


@pytest.mark.parametrize("fail_point", matrix(FAIL_POINTS, "attempt_after_send".__eq__))
def test_killed_at_any_point_there_is_one_effect_and_its_fact(served: AttemptsWorld, fail_point: str) -> None:
    """Trap: a crash between "attempt created" and "sent", or after the send and before the record."""
    refund = _refund_of_a_capture(served)
    victim = served.start("processor_worker", MILLRACE_FAIL_POINT=fail_point)
    attempts = [new_attempt("tok_sim_approve"), new_attempt("tok_sim_error_before_commit"), refund]
    served.publish(*attempts)
    assert victim.wait(patient(20)) == -signal.SIGKILL
    _leases_run_out(served)
    served.start("processor_worker")
    ends = {attempt["operation_id"]: "refunded" if attempt is refund else "captured" for attempt in attempts}
    for attempt in attempts:
        served.fact(attempt, ends[attempt["operation_id"]], within_s=_TAKEN_OVER_WITHIN_S)
        served.settle(attempt, ends[attempt["operation_id"]])
    effects = served.effects()
    for attempt in attempts:
        served.row_reaches(attempt, "done")
        assert effects[attempt["operation_id"]] == 1
        assert set(served.statuses(attempt)) <= {"unknown", ends[attempt["operation_id"]]}


def test_a_frozen_worker_that_wakes_up_does_no_harm(served: AttemptsWorld) -> None:
    """SIGSTOP past the take-over, then SIGCONT: the zombie's late words change nothing."""
    zombie = served.start("processor_worker")
    attempts = [new_attempt("tok_sim_slow") for _ in range(20)]
    served.publish(*attempts)
    eventually(lambda: all(_was_sent(served, a) for a in attempts))
    freeze(zombie.pid)
    served.start("processor_worker")
    for attempt in attempts:
        served.fact(attempt, "captured", within_s=_TAKEN_OVER_WITHIN_S)
        served.settle(attempt, "captured")
    zombie.send_signal(signal.SIGCONT)
    for attempt in attempts:
        served.row_reaches(attempt, "done")
    assert served.end(zombie) == 0
    effects = served.effects()
    assert all(effects[a["operation_id"]] == 1 for a in attempts)
    assert all(served.row_reaches(a, "done")["outcome"] == "captured" for a in attempts)


@pytest.mark.parametrize("by_s", matrix([2 * schedule.DOUBT_MAX_S, -2 * schedule.DOUBT_MAX_S], gate=lambda s: s > 0))
def test_a_worker_whose_clock_is_wrong_ends_at_the_truth_as_soon(served: AttemptsWorld, by_s: int) -> None:
    """How old a doubt is, the database says: no clock of a worker's own hands it to a person, or lets it be forgotten."""
    process, port = served.launch("processor_worker", module="tests.worlds.wrong_clock", WRONG_BY_S=str(by_s))
    eventually(lambda: is_ready(port) or process.poll() is not None, 60, what="ready")
    attempt = new_attempt("tok_sim_timeout_after_commit")
    served.publish(attempt)
    served.fact(attempt, "captured", within_s=15)
    assert served.statuses(attempt, 2) == ["unknown", "captured"]
    served.settle(attempt, "captured")
    served.row_reaches(attempt, "done")
    assert served.effects()[attempt["operation_id"]] == 1


def test_a_processor_that_is_away_costs_no_doubt(world: AttemptsWorld) -> None:
    """Nothing was sent, so nothing is unknown: the same identity is sent when it is back. The breaker spares it."""
    world.start("processor_worker")
    attempts = [new_attempt() for _ in range(payments_limits.ATTEMPT_BREAKER_FAILURES * 2)]
    world.publish(*attempts)
    becomes(lambda: sum(bool(world.row(a)) for a in attempts), len(attempts))
    eventually(lambda: any((row := world.row(a)) and row["error_code"] == "not_connected" for a in attempts))
    for attempt in attempts:  # however long a start takes here, it is not away for so long that they are given up
        _made_older(world, attempt, -payments_limits.ATTEMPT_UNREACHABLE_MAX_S)
    world.start("simulator")
    for attempt in attempts:
        world.fact(attempt, "captured", within_s=25)
        assert set(world.statuses(attempt)) == {"captured"}


def test_an_attempt_that_never_left_fails_in_the_end(world: AttemptsWorld) -> None:
    """Proved never sent for too long: failed, so that the payer may try again."""
    world.start("processor_worker")
    attempt = new_attempt()
    world.publish(attempt)
    eventually(lambda: (row := world.row(attempt)) and row["error_code"] == "not_connected")
    _made_older(world, attempt, payments_limits.ATTEMPT_UNREACHABLE_MAX_S + 1)
    assert world.fact(attempt, "failed", within_s=25).payload["error_code"] == "processor_unreachable"
    world.settle(attempt, "failed")
    world.row_reaches(attempt, "done")


@pytest.mark.proof
def test_killed_between_giving_up_and_telling_it_stays_given_up(world: AttemptsWorld) -> None:
    """The end is durable before it is told: the processor is back, and the next worker tells it and sends nothing."""
    worker = world.start("processor_worker", MILLRACE_FAIL_POINT="attempt_after_give_up")
    attempt = new_attempt()
    world.publish(attempt)
    eventually(lambda: (row := world.row(attempt)) and row["error_code"] == "not_connected")
    _made_older(world, attempt, payments_limits.ATTEMPT_UNREACHABLE_MAX_S + 1)
    assert worker.wait(patient(20)) == -signal.SIGKILL
    assert world.statuses(attempt) == []
    _leases_run_out(world)
    world.start("simulator")
    world.start("processor_worker")
    assert world.fact(attempt, "failed", within_s=_TAKEN_OVER_WITHIN_S).payload["error_code"] == "processor_unreachable"
    assert set(world.statuses(attempt)) == {"failed"}
    assert world.effects()[attempt["operation_id"]] == 0


def test_doubt_never_ends_in_failed(world: AttemptsWorld) -> None:
    """A processor that dies after a send: however old the doubt, it ends with a person, never with "failed"."""
    simulator = world.start("simulator")
    worker = world.start("processor_worker", MILLRACE_FAIL_POINT="attempt_after_answer_before_report")
    attempt = new_attempt()
    world.publish(attempt)
    assert worker.wait(patient(20)) == -signal.SIGKILL
    world.end(simulator)
    _leases_run_out(world)
    _made_older(world, attempt, sum(payments_limits.ATTEMPT_POLL_SCHEDULE_S) + 1)
    world.start("processor_worker")
    fact = world.fact(attempt, "manual_review", within_s=_TAKEN_OVER_WITHIN_S)
    assert fact.payload["error_code"] == "unresolved:not_connected"
    assert world.row_reaches(attempt, "reported")["outcome"] == "manual_review"
    assert set(world.statuses(attempt)) == {"manual_review"}
    world.settle(attempt, "manual_review")
    world.row_reaches(attempt, "review")


def test_a_drained_worker_finishes_its_calls(served: AttemptsWorld) -> None:
    """SIGTERM in the middle of slow calls: they end, their facts are told, and the exit is clean."""
    worker = served.start("processor_worker")
    attempts = [new_attempt("tok_sim_slow") for _ in range(10)]
    served.publish(*attempts)
    eventually(lambda: all(_was_sent(served, a) for a in attempts))
    assert served.end(worker) == 0
    for attempt in attempts:
        row = served.row(attempt)
        assert row is not None
        told = served.statuses(attempt)
        # On a machine that stands still for a second, a slow call times out: then its doubt is what is told.
        assert (row["status"], row["outcome"]) in (("reported", "captured"), ("waiting", "unknown"))
        assert told[-1:] == [row["outcome"]]
        assert set(told) <= {"unknown", "captured"}


def test_postgres_restarted_under_a_worker(served: AttemptsWorld) -> None:
    """All its connections are cut while events come in: the worker goes on by itself."""
    served.start("processor_worker")
    attempts = [new_attempt() for _ in range(50)]
    for attempt in attempts:
        served.publish(attempt)
        with served.database() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'millrace_worker'"
                " and datname = current_database()"
            )
    wanted = {f"{a['operation_id']}:captured" for a in attempts}
    eventually(lambda: wanted <= {f.idempotency_key for f in served.all_facts()}, _TAKEN_OVER_WITHIN_S)
    effects = served.effects()
    assert all(effects[a["operation_id"]] == 1 for a in attempts)


def _refund_of_a_capture(world: AttemptsWorld) -> dict[str, Any]:
    """A refund attempt of money that the processor has taken."""
    paid = new_attempt()
    body = {"kind": "purchase", "reference": paid["intent_id"], "amount": 1_234, "currency": "USD"}
    answer = httpx.post(
        f"{world.settings.addresses().processor_url}/v1/operations",
        json=body | {"token": "tok_sim_approve"},
        headers={"Idempotency-Key": paid["operation_id"]},
        timeout=20,
    )
    ref = answer.json()["provider_ref"]
    return next_attempt(paid, 2, kind="refund", parent_ref=ref)


def _was_sent(world: AttemptsWorld, attempt: dict[str, Any]) -> bool:
    """Somebody took it on: a call of two seconds may be over before this is asked."""
    row = world.row(attempt)
    return row is not None and row["send_count"] > 0


def _leases_run_out(world: AttemptsWorld) -> None:
    """As if the leases of the dead had run out by now. That they do by themselves is seen where a worker is frozen."""
    with world.database() as connection:
        connection.execute("update attempt_dispatch set lease_until = now(), next_at = now() where status = 'leased'")


def _made_older(world: AttemptsWorld, attempt: dict[str, object], seconds: int) -> None:
    with world.database() as connection:
        connection.execute(
            "update attempt_dispatch set first_at = first_at - %s * interval '1 second' where operation_id = %s",
            (seconds, attempt["operation_id"]),
        )

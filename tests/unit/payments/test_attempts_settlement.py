"""What an answer leads to: facts, their identity, and when the attempt is due again."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from msgspec import structs

from dataflows.payments.attempts import schedule
from dataflows.payments.attempts.adapter import (
    Answer,
    Call,
    Definitive,
    DefinitiveStatus,
    NotExecuted,
    NotSent,
    Pending,
    RequiresAction,
    Unknown,
)
from dataflows.payments.attempts.dispatch import AttemptLease, Change, fold
from dataflows.payments.attempts.facts import Fact, command_of
from dataflows.payments.attempts.settlement import settle
from schemas import limits, topics
from schemas.avro import codec
from schemas.fields import validation
from schemas.payments import limits as payments_limits
from schemas.payments import payloads

CALL = Call(
    operation_id="op_a_1",
    intent_id="pi_a",
    merchant_id="m_test",
    kind="purchase",
    amount=1_099,
    currency="USD",
    payment_method="tok_sim_approve",
    parent_ref=None,
    final=True,
)
NOW = 1_800_000_000.0
LEASE = AttemptLease(
    call=CALL,
    attempt=1,
    processor="simulator",
    trace_id="0" * 32,
    send_count=1,
    unknown_count=0,
    in_doubt=False,
    first_at=NOW,
    ends_at=10.0,
)
CAPTURED = Definitive(status="captured", provider_ref="r", amount=1_099, currency="USD", error_code=None)
NOT_EXECUTED = (NotSent("not_connected"), NotExecuted("http_429"))


@pytest.mark.parametrize("status", get_args(DefinitiveStatus))
def test_a_definitive_answer_is_told_once(status: DefinitiveStatus) -> None:
    """The fact's identity is operation and status, whichever send it came from."""
    settled = [settle(replace(LEASE, send_count=n), replace(CAPTURED, status=status), NOW, 0.5) for n in (1, 7)]
    commands = [command_of(s.fact, n) for n, s in enumerate(settled) if s.fact]
    assert {c.idempotency_key for c in commands} == {f"op_a_1:{status}"}
    assert len({(c.request_id, c.request_hash) for c in commands}) == 1
    assert {s.record.status for s in settled} == {"reported"}


def test_each_doubt_is_a_fact_of_its_own() -> None:
    """The key of an unknown outcome carries the number of the send; the schedule is seconds at first."""
    waits = []
    for n, _ in enumerate(payments_limits.ATTEMPT_POLL_SCHEDULE_S):
        settled = settle(replace(LEASE, send_count=n + 1, unknown_count=n), Unknown("timeout"), NOW, 0.5)
        assert settled.fact is not None
        assert command_of(settled.fact, 0).idempotency_key == f"op_a_1:unknown:{n + 1}"
        assert settled.fact.error_code == "timeout"
        record = settled.record
        assert (record.status, record.in_doubt, record.unknowns) == ("waiting", True, 1)
        waits.append(record.delay_ms // 1_000)
    assert waits[:3] == [2, 10, 60]
    assert tuple(waits) == payments_limits.ATTEMPT_POLL_SCHEDULE_S


def test_what_the_payer_has_to_do_is_told_with_its_address() -> None:
    """An open outcome, asked for again slowly; the address is in the fact only where there is one."""
    settled = [settle(LEASE, RequiresAction("r", url), NOW, 0.5) for url in ("https://bank.example/3ds", None)]
    told = [command_of(s.fact, 0).payload for s in settled if s.fact]
    assert [(p["status"], p.get("redirect_url")) for p in told] == [
        ("requires_action", "https://bank.example/3ds"),
        ("requires_action", None),
    ]
    assert [s.record.delay_ms for s in settled] == [schedule.action_delay_ms()] * 2
    assert len({command_of(s.fact, 0).idempotency_key for s in settled if s.fact}) == 1, "one fact, however often asked"
    assert all(validation.normalize(payloads.ATTEMPT_OUTCOME, p)[1] == [] for p in told)
    assert {(s.record.status, s.record.in_doubt, s.record.unknowns) for s in settled} == {("waiting", True, 0)}


def test_a_refund_that_failed_after_its_success_is_a_fact_of_its_own() -> None:
    """The same identity as when a webhook tells it, and not that of a refund that never succeeded."""
    failed = replace(CAPTURED, status="failed_later", error_code="lost_or_stolen_card")
    fact = settle(LEASE, failed, NOW, 0.5).fact
    assert fact is not None
    command = command_of(fact, 0)
    assert command.idempotency_key == "op_a_1:failed_later"
    assert (command.payload["status"], command.payload["error_code"]) == ("failed", "lost_or_stolen_card")
    assert validation.normalize(payloads.ATTEMPT_OUTCOME, command.payload)[1] == []


def test_pending_is_asked_for_again_and_each_time_is_a_fact_of_its_own() -> None:
    """The processor has it and will tell: no failure, no other attempt, the same schedule as a doubt."""
    answer = Pending("sim_r", "charge_pending")
    settled = settle(replace(LEASE, send_count=3, unknown_count=1), answer, NOW, 0.5)
    assert settled.fact is not None
    assert command_of(settled.fact, 0).payload["pending_reason"] == "charge_pending"
    assert command_of(settled.fact, 0).idempotency_key == "op_a_1:pending:3"
    assert (settled.fact.provider_ref, settled.fact.error_code) == ("sim_r", None)
    assert (settled.record.status, settled.record.outcome, settled.record.in_doubt) == ("waiting", "pending", True)
    assert settled.record.delay_ms == payments_limits.ATTEMPT_POLL_SCHEDULE_S[1] * 1_000


def test_past_the_schedule_a_person_decides() -> None:
    """Never "failed" on its own, however many polls there were or however old it is."""
    many = replace(LEASE, unknown_count=len(payments_limits.ATTEMPT_POLL_SCHEDULE_S), in_doubt=True)
    old = replace(LEASE, first_at=NOW - schedule.DOUBT_MAX_S - 1, in_doubt=True)
    answers: list[tuple[AttemptLease, Answer]] = [(many, Unknown("timeout")), (old, Unknown("timeout"))]
    answers += [(old, answer) for answer in NOT_EXECUTED]
    pending = settle(many, Pending("sim_r"), NOW, 0.5).fact
    assert pending is not None
    assert (pending.status, pending.error_code) == ("manual_review", "unresolved:pending")
    for lease, answer in answers:
        settled = settle(lease, answer, NOW, 0.5)
        assert settled.fact is not None
        assert (settled.fact.status, settled.record.status) == ("manual_review", "reported")
        assert settled.fact.error_code == f"unresolved:{answer.reason}"  # type: ignore[union-attr] # no Definitive


@pytest.mark.parametrize("answer", NOT_EXECUTED)
@pytest.mark.parametrize("in_doubt", [True, False])
def test_proof_of_no_execution_tells_nothing_and_tries_again(answer: Answer, in_doubt: bool) -> None:
    """No fact, a short wait, and an earlier doubt stays."""
    settled = settle(replace(LEASE, in_doubt=in_doubt), answer, NOW, 0.5)
    assert settled.fact is None
    assert (settled.record.status, settled.record.in_doubt, settled.record.unknowns) == ("waiting", in_doubt, 0)
    assert 0 < settled.record.delay_ms <= payments_limits.ATTEMPT_RETRY_FIRST_MS


def test_a_card_that_is_gone_ends_a_first_send_only() -> None:
    """An earlier send may have been executed before the card was deleted: that doubt is no failure, and stays."""
    gone = NotExecuted("payment_method_unknown", is_for_good=True)
    first = settle(LEASE, gone, NOW, 0.5)
    assert first.fact is not None
    assert (first.fact.status, first.fact.error_code) == ("failed", "payment_method_unknown")
    again = settle(replace(LEASE, in_doubt=True), gone, NOW, 0.5)
    assert again.fact is not None
    assert (again.fact.status, again.record.status, again.record.in_doubt) == ("unknown", "waiting", True)
    old = settle(replace(LEASE, in_doubt=True, first_at=NOW - schedule.DOUBT_MAX_S - 1), gone, NOW, 0.5)
    assert old.fact is not None
    assert old.fact.status == "manual_review"


@pytest.mark.parametrize("answer", NOT_EXECUTED)
def test_no_turn_calls_an_attempt_failed_that_was_not_answered(answer: Answer) -> None:
    """However old it is, a turn says nothing of it: whether it has failed is decided in the table, before it is told."""
    old = replace(LEASE, first_at=NOW - payments_limits.ATTEMPT_UNREACHABLE_MAX_S - 1)
    for in_doubt in (False, True):
        settled = settle(replace(old, in_doubt=in_doubt), answer, NOW, 0.5)
        assert settled.fact is None
        assert (settled.record.status, settled.record.in_doubt) == ("waiting", in_doubt)


def test_retries_back_off_within_bounds() -> None:
    """Doubling from the first to the last wait, whatever the count; jitter only shortens."""
    waits = [schedule.retry_delay_ms(n, 1.0) for n in range(1, 40)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (payments_limits.ATTEMPT_RETRY_FIRST_MS, payments_limits.ATTEMPT_RETRY_MAX_MS)
    assert schedule.retry_delay_ms(10**9, 1.0) == payments_limits.ATTEMPT_RETRY_MAX_MS
    assert schedule.retry_delay_ms(1, 0.0) == payments_limits.ATTEMPT_RETRY_FIRST_MS // 2


def test_a_lease_is_longer_than_the_longest_turn() -> None:
    """A query and a send that both take as long as they may, each with a new connection."""
    call_ms = payments_limits.ATTEMPT_CALL_TIMEOUT_MS + payments_limits.ATTEMPT_CONNECT_TIMEOUT_MS
    assert 2 * call_ms < payments_limits.ATTEMPT_LEASE_MS
    assert 2 * call_ms <= payments_limits.ATTEMPT_DRAIN_TIMEOUT_S * 1_000


def test_a_fact_is_a_valid_command() -> None:
    """The owner validates it with the same table as any other command, and it survives the wire."""
    fact = settle(LEASE, CAPTURED, NOW, 0.5).fact
    assert isinstance(fact, Fact)
    command = command_of(fact, issued_at=5)
    normalized, errors = validation.normalize(payloads.ATTEMPT_OUTCOME, command.payload)
    assert (normalized | command.payload, errors) == (normalized, [])
    assert codec.decode_command(codec.encode_command(command)) == structs.replace(command, payload=normalized)
    assert topics.partition_for(command.aggregate_key, 8) == topics.partition_for("pi_a", 8)
    assert (command.scope, command.reply_to) == ("processor:simulator", -1)
    assert max(len(command.request_id), len(command.idempotency_key)) <= limits.REQUEST_ID_LENGTH_MAX


def test_a_batch_folds_to_the_furthest_wish_of_each_attempt() -> None:
    """History that is read again settles an attempt before it could be carried out; order of rows is fixed."""

    def change(operation_id: str, wish: str) -> Change:
        return Change(
            call=replace(CALL, operation_id=operation_id),
            attempt=1,
            processor="simulator",
            trace_id="t",
            wish=wish,  # type: ignore[arg-type] # parametrized by text
            outcome=None,
            provider_ref=None,
            error_code=None,
        )

    wishes = [("b", "carry_out"), ("a", "done"), ("b", "review"), ("a", "carry_out"), ("c", "carry_out")]
    folded = fold(change(operation_id, wish) for operation_id, wish in wishes)
    assert [(c.call.operation_id, c.wish) for c in folded] == [("a", "done"), ("b", "review"), ("c", "carry_out")]


@pytest.mark.parametrize("answer", [*NOT_EXECUTED, Unknown("timeout"), Pending("sim_r"), RequiresAction("r", None)])
def test_what_a_person_had_asked_stays_theirs_unless_the_answer_settles_it(answer: Answer) -> None:
    """No fact, for the owner knows already whose it is; a definitive answer is told as ever."""
    asked = replace(LEASE, in_doubt=True, only_asked=True, first_at=NOW - schedule.DOUBT_MAX_S - 1)
    settled = settle(asked, answer, NOW, 0.5)
    assert (settled.fact, settled.record.status, settled.record.in_doubt) == (None, "review", True)
    assert settled.record.error_code is not None
    assert settled.record.error_code.startswith("asked:")
    known = settle(asked, CAPTURED, NOW, 0.5)
    assert known.fact is not None
    assert (known.fact.status, known.record.status) == ("captured", "reported")

"""Compares everything that an owner left behind with the model: rows, answers, ledger, outbox, chain and stream."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.avro import codec
from sinks.postgres.ledger_chain import GENESIS, link_hash
from tests.property.payments.model import Answer, Model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflows.owner.batch import Reply
    from schemas.records import Result
    from tests.property.owner_history import Step, Stored

INTENT: Final = (
    *("id", "merchant_id", "processor", "version", "latest_attempt", "amount_capturable", "amount_received"),
    *("amount_refunded", "amount_disputed", "last_payment_error", "cancellation_reason", "amount", "currency"),
    *("payment_method", "capture_method", "metadata", "state", "next_action"),
)
REFUND: Final = (
    *("id", "intent_id", "merchant_id", "attempt", "amount", "currency", "state", "reason", "failure_reason"),
    *("from_pending", "version", "pending_reason"),
)
DISPUTE: Final = (
    *("id", "intent_id", "merchant_id", "amount", "currency", "fee", "reason", "state", "funds", "version"),
    *("evidence_state", "evidence_due_by"),
)
_STORED: Final = {"evidence_due_by": "(extract(epoch from evidence_due_by) * 1000000)::bigint"}


def expected(
    steps: Iterable[tuple[tuple[int, int], Step]],
    winners: dict[tuple[str, str], tuple[int, int]],
    candidates: tuple[str, ...] = (),
) -> tuple[Model, dict[int, tuple[Answer, bool] | None]]:
    """The model after these steps, each at its place, and its answer to each step by number."""
    model = Model(winners, candidates)
    answers = {}
    for place, step in steps:
        if step.command is not None:
            answers[step.number] = model.take(place, step.command, invalid=step.invalid, misrouted=step.misrouted)
    return model, answers


def check(
    steps: list[Step], replies: Iterable[Reply | Result], stored: Stored, candidates: tuple[str, ...] = ()
) -> None:
    """The end state is the model's, and every reply that was sent is the model's answer, in the stored bytes."""
    offsets: Counter[int] = Counter()
    placed = []
    for step in steps:
        placed.append(((step.partition, offsets[step.partition]), step))
        offsets[step.partition] += 1
    model, answers = expected(placed, stored.winners(), candidates)
    compare(stored, model)
    kept = stored.rows("""select partition, "offset", state = 'refused' from dead_letter""")
    assert {(p, o) for p, o, is_refused in kept if is_refused} <= {place for place, step in placed if step.misrouted}
    letters = {(p, o) for p, o, is_refused in kept if not is_refused}
    assert letters == {place for place, step in placed if step.command is None}
    responses = stored.responses()
    for reply in replies:
        found, command = answers[reply.reply_id], steps[reply.reply_id].command
        if found is None or command is None:
            continue
        answer, replayed = found
        assert (reply.outcome, reply.replayed) == (answer[0], replayed), steps[reply.reply_id]
        check_body(reply.body, answer)
        if replayed or answer[0] == "committed":  # rendered again or stored: the bytes of the first answer
            assert reply.body == responses[command.scope, command.idempotency_key][1]


def compare(stored: Stored, model: Model) -> None:
    """Every table equals the model."""
    _intents_and_attempts(stored, model)
    _reviews(stored, model)
    _answers(stored, model)
    _ledger(stored, model)
    _chain(stored)
    outbox = stored.outbox()
    assert {p: [(key, version) for _, key, version, _ in rows] for p, rows in outbox.items()} == dict(model.events)
    versions: dict[str, list[int]] = defaultdict(list)
    for rows in outbox.values():
        assert [row[0] for row in rows] == list(range(1, len(rows) + 1)), "seq has a gap"
        for seq, key, version, payload in rows:
            event = codec.decode_event(payload)
            assert (event.seq, event.aggregate_key, event.version) == (seq, key, version)
            versions[key].append(version)
    for key, found in versions.items():
        assert found == list(range(1, model.version(key) + 1)), key


def _intents_and_attempts(stored: Stored, model: Model) -> None:
    intents = {}
    columns = (*INTENT, "amount_pending")
    for row in stored.rows(f"select {', '.join(columns)} from payment_intent"):
        intents[row[0]] = dict(zip(columns, row, strict=True))
        intents[row[0]]["metadata"] = msgspec.json.decode(intents[row[0]]["metadata"])
    assert intents == model.intents
    attempts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    names = ("kind", "status", "amount", "final", "settled_line", "processor")
    for key, *row in stored.rows(
        f"select intent_id, {', '.join(names)} from processor_attempt order by intent_id, attempt"
    ):
        attempts[key].append(dict(zip(names, row, strict=True)))
    assert attempts == {key: found for key, found in model.attempts.items() if found}
    for table, columns, expected_rows in (("refund", REFUND, model.refunds), ("dispute", DISPUTE, model.disputes)):
        found = stored.rows(f"select {', '.join(_STORED.get(c, c) for c in columns)} from {table}")
        assert {row[0]: dict(zip(columns, row, strict=True)) for row in found} == expected_rows, table
    assert dict(stored.rows("select id, reference from journal_entry")) == model.journals  # type: ignore[arg-type]


def _reviews(stored: Stored, model: Model) -> None:
    """A case waits exactly as long as its payment does, and everything that was said of a confirm is there."""
    cases: dict[str, list[str]] = defaultdict(list)
    for intent, state in stored.rows("select reference, state from repair_case where kind = 'risk_review'"):
        cases[intent].append(state)
    waiting = {key for key, intent in model.intents.items() if intent["state"] == "requires_merchant_action"}
    assert {key for key, states in cases.items() if "open" in states} == waiting
    assert all(states.count("open") <= 1 for states in cases.values())
    assert {key: len(states) for key, states in cases.items()} == model.reviews
    said = stored.rows("select intent_id, attempt, decided_by <> '', outcome from risk_assessment order by 1, 2, 3")
    assert [tuple(row) for row in said] == sorted(model.assessments)


def _answers(stored: Stored, model: Model) -> None:
    responses = stored.responses()
    assert responses.keys() == model.answers.keys()
    for identity, (_, answer) in model.answers.items():
        status, response = responses[identity]
        assert status == answer[0], identity
        check_body(response, answer)


def check_body(body: bytes, answer: Answer) -> None:
    """An answer's JSON says what the model says."""
    outcome, what = answer
    shown = msgspec.json.decode(body)
    if outcome != "committed":
        assert shown["code"] == ("deadline_exceeded" if outcome == "expired" else what)
        return
    result = shown["result"]
    if result["object"] != "payment_intent":
        names = what.keys() & result.keys()
        assert len(names) > 2
        if (due := what.get("evidence_due_by")) is not None:  # of a history, within the first second of all time
            what = what | {"evidence_due_by": f"1970-01-01T00:00:00.{due:06d}Z"}
        assert {name: result[name] for name in names} == {name: what[name] for name in names}
        assert shown["event"]["aggregate_key"] == what.get("intent_id", what["id"])
        return
    intent = {name: result[name] for name in INTENT}
    if intent["last_payment_error"] is not None:
        intent["last_payment_error"] = intent["last_payment_error"]["code"]
    if intent["next_action"] is not None:
        intent["next_action"] = intent["next_action"]["url"]
    assert intent == {name: value for name, value in what.items() if name != "amount_pending"}
    assert shown["event"]["aggregate_key"] == what["id"]


def _ledger(stored: Stored, model: Model) -> None:
    entries = "select account_id, sum(debit)::bigint, sum(credit)::bigint, count(*) from ledger_entry group by 1"
    sums = {row[0]: list(row[1:]) for row in stored.rows(entries)}
    assert sums == dict(model.accounts)
    balances = "select account_id, sum(debits)::bigint, sum(credits)::bigint, sum(version)::bigint from account_balance"
    assert {row[0]: list(row[1:]) for row in stored.rows(balances + " group by 1")} == sums
    unbalanced = "select 1 from ledger_entry group by txn_id, currency having sum(debit) <> sum(credit)"
    assert stored.rows(unbalanced) == []
    held: Counter[str] = Counter()
    for intent in model.intents.values():
        held[f"{intent['processor']}:{intent['currency']}"] += intent["amount_capturable"]
    for account, amount in held.items():
        debit, credit, _ = sums.get(f"auth_hold:{account}", [0, 0, 0])
        assert debit - credit == amount, "invariant 10: holds equal what can be captured"


def _chain(stored: Stored) -> None:
    hashes: dict[int, bytes] = defaultdict(lambda: GENESIS)
    for partition, first, last, count, prev, link in stored.rows(
        "select partition, first_txn, last_txn, txns, prev_hash, hash from ledger_chain order by partition, link"
    ):
        rows = stored.rows(
            "select t.txn_id, reference, kind, (extract(epoch from t.effective_at) * 1000000)::bigint, line, account_id,"
            " debit, credit, currency from ledger_txn t join ledger_entry using (txn_id)"
            f" where txn_id between {first} and {last} order by txn_id, line"
        )
        assert len({row[0] for row in rows}) == count
        assert prev == hashes[partition]
        assert link_hash(prev, rows) == link  # type: ignore[arg-type]  # columns of one shape
        hashes[partition] = link
    uncovered = (
        "select 1 from ledger_txn t where not exists (select 1 from ledger_chain c where c.partition = t.partition"
    )
    assert stored.rows(uncovered + " and t.txn_id between first_txn and last_txn)") == []

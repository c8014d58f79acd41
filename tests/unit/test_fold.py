"""One batch in memory: known identities, deadlines, parked aggregates, then the decision; each exactly once and in order."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dataflows.owner.batch import Record
from dataflows.owner.service import Committed, NewEvent, OwnedService
from dataflows.owner.transaction.fold import Fold, Folded, Known, envelope_fault
from dataflows.owner.transaction.retried import Retried
from dataflows.payments.domain import commands as domain
from dataflows.payments.domain.decision import Payment
from dataflows.payments.service import payments_service
from schemas import limits, stored_answer
from schemas.avro import codec
from schemas.errors import UndecodableRecord
from schemas.payments import frozen_answers, rendering
from schemas.records import Command, Rejection
from schemas.senders import INGRESS, PARKED
from schemas.service import Rendering
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from dataflows.owner.batch import Statement
    from schemas.payments.records import PaymentIntent

NOW = 1_800_000_000_000_000
PARTITION = 3
CARD_IN_METADATA = {"amount": 1, "currency": "USD", "metadata": {"note": "4242 4242 4242 4242"}}


@dataclass
class InMemory:
    """Payments in a dict, decided by the domain; counts what it was asked."""

    payments: dict[str, Payment] = field(default_factory=dict)
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    further_events: tuple[NewEvent, ...] = ()
    made_by: int = stored_answer.WHOLE
    rendered: int = 0

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        self.asked.append((command.idempotency_key, offset, now))
        payment = self.payments.get(command.aggregate_key)
        decision = domain.decide(payment, command, cases.CONTEXT)
        if isinstance(decision, Rejection):
            return decision
        self.payments[command.aggregate_key] = cases.apply(payment, decision)
        intent = decision.intent
        attempt = msgspec.structs.asdict(decision.attempt) if decision.attempt else None
        body: dict[str, Any] = {
            "payment_intent": msgspec.structs.asdict(intent),
            "processor_attempt": attempt,
            "ledger_txns": [],
            "refund": None,
            "dispute": None,
            "caused_by": None,
        }
        return Committed(
            partial(self._rendered, intent),
            (NewEvent(intent.version, intent.merchant_id, body), *self.further_events),
            self.made_by,
        )

    def _rendered(self, intent: PaymentIntent) -> dict[str, Any]:
        self.rendered += 1
        return rendering.payment_intent(intent)

    def writes(self) -> list[Statement]:
        return []

    def committed(self) -> None:
        pass


def asking(step: Command, key: str, reply_id: int = 1, **changes: Any) -> Command:
    """The command with an identity of its own and somebody who waits."""
    return msgspec.structs.replace(step, idempotency_key=key, reply_to=2, reply_id=reply_id, **changes)


def fold(
    *steps: Command | None,
    known: dict[tuple[str, str], Known] | None = None,
    parked: set[str] | None = None,
    last_seq: int = 40,
    workspace: InMemory | None = None,
    service: OwnedService | None = None,
) -> tuple[Folded, InMemory]:
    memory = workspace or InMemory()
    records = [Record(100 + n, b"", step) for n, step in enumerate(steps)]
    folding = Fold(service or payments_service(), PARTITION, last_seq, known or {}, parked or set(), memory)
    return folding.run(records, NOW), memory


def said(folded: Folded) -> list[tuple[str, bool, str | None]]:
    """Outcome, replayed, and the code of a refusal, reply by reply."""
    return [(r.outcome, r.replayed, msgspec.json.decode(r.body).get("code")) for r in folded.replies]


CREATE = asking(cases.create(), "k1")


def test_a_new_command_is_decided_stored_published_and_answered() -> None:
    folded, _ = fold(CREATE)
    (identity,), (event,), (reply,) = folded.identities, folded.events, folded.replies
    assert (identity.status, identity.offset, identity.response) == ("committed", 100, reply.body)
    assert (event.seq, event.version, event.key, event.scope) == (41, 1, cases.INTENT_ID, cases.MERCHANT)
    assert (reply.reply_to, reply.reply_id, reply.outcome, reply.replayed) == (2, 1, "committed", False)
    answer = msgspec.json.decode(reply.body)
    assert answer["result"]["state"] == "requires_confirmation"
    published = codec.decode_event(event.payload)
    assert answer["event"] == {
        "event_id": published.event_id,
        "aggregate_key": cases.INTENT_ID,
        "event_type": "payment_system_committed",
        "schema_version": codec.schema_named("PaymentSystemCommitted").version,
        "trace_id": CREATE.trace_id,
    }
    assert (published.seq, published.version, published.operation) == (41, 1, cases.CREATE)
    assert identity.event_id == published.event_id == event.event_id


def test_a_retry_in_the_same_batch_gets_the_same_bytes_and_does_nothing() -> None:
    folded, memory = fold(CREATE, asking(CREATE, "k1", 2), asking(CREATE, "k1", 3))
    assert len({r.body for r in folded.replies}) == 1
    assert [r.replayed for r in folded.replies] == [False, True, True]
    assert len(memory.asked) == len(folded.identities) == len(folded.events) == 1


def test_a_retry_of_an_earlier_batch_gets_the_stored_bytes() -> None:
    stored = b'{"result":{"stored":1},"event":{}}'
    folded, memory = fold(CREATE, known={(cases.MERCHANT, "k1"): Known(CREATE.request_hash, stored, "committed")})
    assert [(r.body, r.outcome, r.replayed) for r in folded.replies] == [(stored, "committed", True)]
    assert (memory.asked, folded.identities, folded.events) == ([], [], [])


def test_a_fact_that_nobody_waits_for_keeps_no_answer_but_its_event() -> None:
    """Who asks for it reads the event; whoever waits gets, and its retries too, the whole answer."""
    confirm = asking(cases.confirm(), "k2")
    heard = asking(cases.fact(cases.after(cases.after(None, CREATE), confirm), "captured"), "fact")
    waiting, _ = fold(CREATE, confirm, heard)
    assert waiting.identities[2].response == waiting.replies[2].body
    assert msgspec.json.decode(waiting.replies[2].body)["result"]["state"] == "succeeded"
    folded, _ = fold(CREATE, confirm, msgspec.structs.replace(heard, reply_to=-1))
    told = stored_answer.whole(folded.identities[2].response, folded.events[2].payload)
    assert msgspec.json.decode(told) == {
        "result": None,
        "event": {"event_id": folded.events[2].event_id, "aggregate_key": cases.INTENT_ID},
    }
    unwatched, _ = fold(msgspec.structs.replace(CREATE, reply_to=-1))
    assert msgspec.json.decode(unwatched.identities[0].response)["result"]["id"] == cases.INTENT_ID


def test_an_answer_that_its_event_implies_is_kept_as_the_number_of_its_rendering() -> None:
    folded, _ = fold(CREATE, asking(CREATE, "k1", 2), workspace=InMemory(made_by=frozen_answers.INTENT))
    (identity,), (event,) = folded.identities, folded.events
    assert identity.response == bytes((frozen_answers.INTENT,))
    assert [r.body for r in folded.replies] == [stored_answer.whole(identity.response, event.payload)] * 2


def test_an_answer_that_nobody_waits_for_is_not_rendered_and_a_retry_that_waits_gets_its_bytes() -> None:
    unwatched, memory = msgspec.structs.replace(CREATE, reply_to=-1), InMemory(made_by=frozen_answers.INTENT)
    folded, _ = fold(unwatched, unwatched, CREATE, workspace=memory)
    told, _ = fold(CREATE, workspace=InMemory(made_by=frozen_answers.INTENT))
    assert memory.rendered == 0
    assert [(r.body, r.replayed) for r in folded.replies] == [(told.replies[0].body, True)]
    assert folded.identities[0].response == told.identities[0].response


def test_an_event_of_a_version_that_has_not_all_of_it_implies_no_answer() -> None:
    """An owner whose schema is pinned: a rendering of what it writes would lack what its caller was shown."""
    later = Rendering(schema_version=99, result=dict)
    declared = dataclasses.replace(payments_service().declared, renderings={frozen_answers.INTENT: later})
    service = dataclasses.replace(payments_service(), declared=declared)
    folded, _ = fold(CREATE, workspace=InMemory(made_by=frozen_answers.INTENT), service=service)
    assert folded.identities[0].response == folded.replies[0].body


def test_a_refusal_is_frozen_too() -> None:
    """Rule: a retry cannot succeed later by surprise. The confirm is refused before the intent exists and ever after."""
    early = asking(cases.confirm(), "k2")
    folded, memory = fold(early, CREATE, asking(early, "k2", 9))
    assert said(folded) == [("refused", False, "not_found"), ("committed", False, None), ("refused", True, "not_found")]
    assert [i.status for i in folded.identities] == ["refused", "committed"]
    assert folded.identities[0].event_id == ""
    assert memory.payments[cases.INTENT_ID].intent.state == "requires_confirmation"


def test_the_same_key_with_another_request_is_refused_and_not_stored() -> None:
    other = asking(cases.create(amount=1), "k1")
    folded, _ = fold(CREATE, other, asking(CREATE, "k1", 3))
    assert said(folded) == [("committed", False, None), ("refused", False, "key_reused"), ("committed", True, None)]
    assert len(folded.identities) == 1


def test_the_same_key_of_two_callers_is_two_identities() -> None:
    theirs = asking(cases.create(), "k1", scope="m_2", aggregate_key="pi_theirs")
    folded, _ = fold(CREATE, theirs)
    assert [i.command.scope for i in folded.identities] == [cases.MERCHANT, "m_2"]
    assert [e.version for e in folded.events] == [1, 1]


def test_a_deadline_that_passed_leaves_no_trace_and_the_identity_may_try_again() -> None:
    late = asking(CREATE, "k1", deadline_at=NOW - 1)
    folded, memory = fold(late)
    assert said(folded) == [("expired", False, "deadline_exceeded")]
    assert (memory.asked, folded.identities, folded.events) == ([], [], [])
    folded, _ = fold(late, CREATE)
    assert [r.outcome for r in folded.replies] == ["expired", "committed"]


def test_a_deadline_is_inclusive_and_zero_is_none() -> None:
    for deadline in (0, NOW):
        assert said(fold(asking(CREATE, "k1", deadline_at=deadline))[0]) == [("committed", False, None)]


def test_a_known_result_is_told_past_the_deadline_and_on_a_parked_aggregate() -> None:
    known = {(cases.MERCHANT, "k1"): Known(CREATE.request_hash, b'{"result":1}', "committed")}
    late = asking(CREATE, "k1", deadline_at=1)
    folded, _ = fold(late, known=known, parked={cases.INTENT_ID})
    assert [(r.outcome, r.replayed) for r in folded.replies] == [("committed", True)]


def test_a_parked_aggregate_refuses_and_the_others_go_on() -> None:
    other = asking(cases.create(), "k2", aggregate_key="pi_other")
    folded, memory = fold(CREATE, other, parked={cases.INTENT_ID})
    assert said(folded) == [("parked", False, "parked"), ("committed", False, None)]
    assert [i.command.idempotency_key for i in folded.identities] == ["k2"], "not stored: it may be tried again later"
    assert list(memory.payments) == ["pi_other"]


def test_a_command_that_says_it_was_parked_is_decided_as_an_operator_let_it_try_again() -> None:
    """Whoever holds that key may speak in any name: of what nobody retried nothing is believed."""
    came = asking(CREATE, "k1", deadline_at=NOW + 10**9)
    letter = codec.encode_command(came)

    def decided(command: Command, *letters: bytes) -> Folded:
        record = Record(100, b"", command, sender=PARKED)
        retried = Retried([(one,) for one in letters])
        return Fold(payments_service(), PARTITION, 40, {}, set(), InMemory(), retried).run([record], NOW)

    again = codec.decode_command(letter).tried_again()
    for forged in (
        {"scope": "m_another"},
        {"payload": CREATE.payload | {"amount": 1}},
        {"signals": {"network": "visa"}},
    ):
        folded = decided(msgspec.structs.replace(again, **forged), letter, b"unreadable")
        assert ([r.refused for r in folded.refused], folded.identities, folded.events) == (["not_retried"], [], [])
    assert [r.refused for r in decided(again).refused] == ["not_retried"]
    assert [i.status for i in decided(again, letter).identities] == ["committed"]


@pytest.mark.parametrize("change", [{"amount": 0}, {"currency": "XAU"}, {"capture_method": "x"}])
def test_the_owner_validates_what_a_producer_wrote_past_the_ingress(change: dict[str, object]) -> None:
    bad = asking(cases.command(cases.CREATE, cases.create().payload | change), "k1")
    folded, memory = fold(bad)
    assert said(folded) == [("refused", False, "invalid_command")]
    assert (memory.asked, folded.identities) == ([], [])


def test_later_commands_of_a_batch_see_what_earlier_ones_did() -> None:
    folded, memory = fold(CREATE, asking(cases.confirm(), "k2"), asking(cases.confirm(), "k3"))
    assert said(folded)[1:] == [("committed", False, None), ("refused", False, "state_conflict")]
    assert [e.version for e in folded.events] == [1, 2]
    assert memory.payments[cases.INTENT_ID].intent.version == 2


def test_events_are_numbered_without_gap_and_refusals_take_no_number() -> None:
    steps = [asking(cases.create(), f"k{n}", aggregate_key=f"pi_{n % 3}") for n in range(6)]
    folded, _ = fold(*steps, last_seq=7)
    assert [e.seq for e in folded.events] == [8, 9, 10]
    assert len({e.event_id for e in folded.events}) == 3
    assert len(folded.identities) == 6


def test_every_command_has_a_time_of_its_own() -> None:
    steps = [asking(cases.create(), f"k{n}", aggregate_key=f"pi_{n}") for n in range(3)]
    folded, memory = fold(*steps)
    times = [now for _, _, now in memory.asked]
    assert times == sorted(set(times))
    assert [e.occurred_at for e in folded.events] == times


def test_a_record_that_is_no_command_takes_its_offset_and_nothing_else() -> None:
    folded, memory = fold(None, CREATE, None)
    assert [offset for _, offset, _ in memory.asked] == [101]
    assert len(folded.replies) == 1


def test_nobody_waits_for_a_reply_to_minus_one() -> None:
    folded, _ = fold(msgspec.structs.replace(CREATE, reply_to=-1))
    assert (folded.replies, len(folded.identities)) == ([], 1)


@pytest.mark.parametrize(
    ("name", "length_max"),
    [
        ("idempotency_key", limits.IDEMPOTENCY_KEY_LENGTH_MAX),
        ("request_id", limits.REQUEST_ID_LENGTH_MAX),
        ("aggregate_key", limits.AGGREGATE_KEY_LENGTH_MAX),
        ("scope", limits.SCOPE_LENGTH_MAX),
        ("trace_id", limits.REQUEST_ID_LENGTH_MAX),
    ],
)
def test_identities_that_cannot_be_stored(name: str, length_max: int) -> None:
    """Rule: what no table can hold is parked as undecodable, before any statement is made of it."""
    assert envelope_fault(CREATE) is None
    assert envelope_fault(msgspec.structs.replace(CREATE, **{name: "x" * length_max})) is None
    for bad in ("", "x" * (length_max + 1), "a\x00b", "\ud800"):
        fault = envelope_fault(msgspec.structs.replace(CREATE, **{name: bad}))
        assert fault is not None
        assert fault.startswith(name)


CARDS: list[dict[str, Any]] = [
    {"idempotency_key": "4242424242424242"},
    {"request_id": "4242424242424242"},
    {"payload": CARD_IN_METADATA},
]


@pytest.mark.parametrize("change", CARDS)
def test_a_card_number_is_refused_and_not_stored(change: dict[str, Any]) -> None:
    """Whoever writes the topic past the ingress: the owner keeps no identity, event or aggregate of it."""
    folded, memory = fold(msgspec.structs.replace(CREATE, **change))
    assert [r.outcome for r in folded.replies] == ["refused"]
    assert b"never send card numbers here" in folded.replies[0].body
    assert b"4242" not in folded.replies[0].body
    assert (folded.identities, folded.events, memory.asked) == ([], [], [])


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (asking(CREATE, "new", deadline_at=1), "deadline_exceeded"),
        (asking(cases.command(cases.CREATE, cases.create().payload | {"amount": 0}), "new"), "invalid_command"),
        (asking(CREATE, "new", aggregate_key="pi_parked"), "parked"),
        (asking(CREATE, "k1", request_hash=b"another"), "key_reused"),
    ],
)
def test_what_a_program_outside_sent_in_vain_is_found_by_people(step: Command, code: str) -> None:
    """Nobody hears the answer to it, and nothing of it is stored; what the ingress sent has its caller."""
    known = {(cases.MERCHANT, "k1"): Known(CREATE.request_hash, b'{"result":1}', "committed")}
    for sender, refused in (("producer.erp", [code]), (INGRESS, [])):
        record = Record(1, b"x", step, sender=sender)
        folded = Fold(payments_service(), PARTITION, 0, known, {"pi_parked"}, InMemory()).run([record], NOW)
        assert [r.refused for r in folded.refused] == refused
        assert folded.identities == []


def test_a_fault_is_not_a_command() -> None:
    record = Record(1, b"x", None, UndecodableRecord())
    folding = Fold(payments_service(), PARTITION, 0, {}, set(), InMemory())
    assert folding.run([record], NOW) == Folded()


def test_an_operation_of_another_service_is_told_that_it_is_misrouted_and_nothing_is_stored() -> None:
    """It would be parked by a service that does not know it; through its own topic it works."""
    publication = asking(CREATE, "k9", operation="publish_policy", payload={})
    folded, memory = fold(publication, CREATE)
    assert said(folded) == [("refused", False, "misrouted"), ("committed", False, None)]
    assert [i.command.idempotency_key for i in folded.identities] == ["k1"]
    assert [key for key, _, _ in memory.asked] == ["k1"]


def test_a_decision_may_make_several_events_and_the_answer_names_the_first() -> None:
    """Each has its own place in the stream; the stored result is one, and so is its event."""
    second = NewEvent(7, "other_merchant", {"payment_intent": None, "ledger_txns": []}, "payment_system_committed")
    folded, _ = fold(CREATE, workspace=InMemory(further_events=(second,)))
    assert [(e.seq, e.version, e.scope) for e in folded.events] == [(41, 1, cases.MERCHANT), (42, 7, "other_merchant")]
    first, other = (codec.decode_event(e.payload) for e in folded.events)
    assert (first.seq, other.seq, other.event_id != first.event_id) == (41, 42, True)
    (identity,) = folded.identities
    assert msgspec.json.decode(identity.response)["event"]["event_id"] == first.event_id == identity.event_id


def test_what_became_of_a_stored_identity_is_what_was_stored() -> None:
    """A service may answer with any document: its bytes do not tell what became of the command."""
    known = {(cases.MERCHANT, "k1"): Known(CREATE.request_hash, b'{"detail":"any"}', "committed")}
    folded, _ = fold(CREATE, known=known)
    assert [(r.outcome, r.replayed) for r in folded.replies] == [("committed", True)]

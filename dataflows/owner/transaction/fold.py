"""Decides a batch in memory: the spec's order for every command, each aggregate touched once in the end.

For each command: a known identity gets its stored result, and nothing else happens; a command past its deadline
leaves no trace; a parked aggregate refuses; otherwise the service decides. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from dataflows.owner.batch import Record, Reply
from dataflows.owner.service import MISROUTED, Committed, NewEvent, OwnedService, Workspace
from dataflows.owner.transaction.retried import NOT_RETRIED, Retried
from schemas import identity, limits, stored_answer
from schemas.avro import codec
from schemas.fields import card_number, validation
from schemas.operation import Operation
from schemas.records import Command, Denial, Event, Outcome, Rejection
from schemas.refusals import wrong_values
from schemas.senders import INGRESS, OUTSIDE

_json: Final = msgspec.json.Encoder()
_KEY_REUSED: Final = Rejection("key_reused", "This idempotency key was used with another request; use a new key.", {})
_EXPIRED: Final = Rejection(
    "deadline_exceeded", "The deadline passed before the command was started; nothing was done.", {}
)
_PARKED: Final = Rejection("parked", "The object waits for an operator; nothing was done.", {})


class Known(Struct, frozen=True):
    """A stored identity: the hash of its request, what became of it, and what every retry's answer is made of."""

    request_hash: bytes
    response: bytes  # as it is stored: the answer, or how it is rendered
    outcome: Outcome
    event: bytes | None = None  # that a rendering needs, as it is stored or as it is published

    @property
    def answer(self) -> bytes:
        """The answer, byte for byte as it was told or would have been. Raises Corrupt if it cannot be made."""
        return stored_answer.whole(self.response, self.event)


class NewIdentity(Struct):
    """One row of ``idempotency`` that this batch adds."""

    command: Command
    offset: int
    sender: str
    response: bytes  # the answer, or how it is rendered again: schemas.stored_answer
    status: str
    event_id: str


class OutboxRow(Struct):
    """One row of ``outbox`` that this batch adds."""

    seq: int
    event_id: str
    key: str
    version: int
    scope: str
    payload: bytes
    occurred_at: int


class Folded(Struct):
    """Everything that a batch decided."""

    identities: list[NewIdentity] = field(default_factory=list)
    events: list[OutboxRow] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    refused: list[Record] = field(default_factory=list)  # undecided, because of their sender or their place


class Fold:
    """Folds the commands of one batch of one partition into a workspace."""

    def __init__(
        self,
        service: OwnedService,
        partition: int,
        last_seq: int,
        known: dict[tuple[str, str], Known],
        parked: set[str],
        workspace: Workspace,
        retried: Retried | None = None,
    ) -> None:
        self.service = service.declared
        self.partition = partition
        self.seq = last_seq
        self.known = known
        self.parked = parked
        self.retried = retried or Retried()
        self.workspace = workspace
        self.result = Folded()

    def run(self, records: Iterable[Record], now: int) -> Folded:
        """The decisions on all commands, in order. Later commands of the batch see what earlier ones did.

        ``now`` is in microseconds; every command gets a time of its own, so that order of creation is order of time.
        """
        for ordinal, record in enumerate(records):
            if record.command is not None:
                self.record, record.refused = record, None
                if self.retried.allows(record, record.command):
                    self._one(record.command, record.offset, now + ordinal)
                else:
                    record.refused = NOT_RETRIED
            if record.refused is not None:
                self.result.refused.append(record)
        return self.result

    def _one(self, command: Command, offset: int, now: int) -> None:
        prior = self.known.get((command.scope, command.idempotency_key))
        if prior is not None:
            if prior.request_hash == command.request_hash:
                self._answer_again(command, prior)
            else:
                self._leave(command, "refused", _KEY_REUSED)
            return
        if command.deadline_at and now > command.deadline_at:
            self._leave(command, "expired", _EXPIRED)
            return
        if command.aggregate_key in self.parked:
            self._leave(command, "parked", _PARKED)
            return
        operation = self.service.operation_by_name.get(command.operation)
        if operation is None:  # an operation of another service, which works only through that service's topic
            self._misrouted(command)
            return
        invalid = _validate(operation, command, is_from_ingress=self.record.sender == INGRESS)
        if invalid is not None:  # only a producer that writes the topic itself can get here; not stored
            self._leave(command, "refused", invalid)
            return
        decided = self.workspace.decide(command, offset, now)
        if decided is MISROUTED:
            self._misrouted(command)
        elif isinstance(decided, Denial):
            self._leave(command, "refused", decided)
        elif isinstance(decided, Rejection):
            self._refuse(command, offset, decided)
        else:
            self._commit(command, offset, now, decided)

    def _leave(self, command: Command, outcome: Outcome, why: Rejection) -> None:
        """Stores nothing. A program outside gets no answer, so its command is listed among the refused records."""
        self._reply(command, outcome, _refusal(why))
        if self.record.sender.startswith(OUTSIDE):
            self.record.refused = why.code

    def _misrouted(self, command: Command) -> None:
        """Answers a sender that waits, and lists the command for people in any case."""
        self._reply(command, "refused", _refusal(MISROUTED))
        self.record.refused = MISROUTED.code

    def _commit(self, command: Command, offset: int, now: int, decided: Committed) -> None:
        """Rendered is only what is told now or stored whole; a retry gets the same bytes from the event.

        Nobody reads the answer to a fact for which nobody waits: a stub is stored that names its event.
        """
        place = len(self.result.events)
        heads = [self._append(command, now, event) for event in decided.events]
        head, event = heads[0], self.result.events[place]
        made_by = self._rendering(decided, head) if command.is_told else stored_answer.STUB
        response = stored_answer.rendered_by(made_by)
        answer = b""
        if response is None or command.is_awaited:
            answer = stored_answer.told(decided.shown(), head) if command.is_told else stored_answer.stub(head)
        stored = answer if response is None else response
        self._store(command, offset, Known(command.request_hash, stored, "committed", event.payload), event.event_id)
        self._reply(command, "committed", answer)

    def _rendering(self, decided: Committed, head: dict[str, Any]) -> int:
        """The rendering that makes the answer again; WHOLE for an event in an older schema, which lacks some of it."""
        rendering = self.service.renderings.get(decided.rendering)
        is_able = rendering is not None and head["schema_version"] >= rendering.schema_version
        return decided.rendering if is_able else stored_answer.WHOLE

    def _append(self, command: Command, now: int, new: NewEvent) -> dict[str, Any]:
        """Gives an event its place in the stream. Returns the head that the answer names."""
        type_ = self.service.event_type_by_name[new.type]
        self.seq += 1
        event_id = identity.event_id(self.service.code, self.partition, self.seq)
        head: dict[str, Any] = {
            "event_id": event_id,
            "aggregate_key": command.aggregate_key,
            "event_type": type_.name,
            "schema_version": codec.schema_named(type_.record).version,
            "trace_id": command.trace_id,
        }
        event = Event(
            **head,
            seq=self.seq,
            occurred_at=now,
            version=new.version,
            scope=new.scope,
            operation=command.operation,
            body=new.body,
        )
        payload = codec.encode(type_.record, event)
        self.result.events.append(
            OutboxRow(self.seq, event_id, command.aggregate_key, new.version, new.scope, payload, now)
        )
        return head

    def _refuse(self, command: Command, offset: int, why: Rejection) -> None:
        """Stores the refusal: every retry gets it again."""
        answer = _refusal(why)
        self._store(command, offset, Known(command.request_hash, answer, "refused"), "")
        self._reply(command, "refused", answer)

    def _store(self, command: Command, offset: int, known: Known, event_id: str) -> None:
        self.known[command.scope, command.idempotency_key] = known
        self.result.identities.append(
            NewIdentity(command, offset, self.record.sender, known.response, known.outcome, event_id)
        )

    def _answer_again(self, command: Command, prior: Known) -> None:
        if command.is_awaited:
            self._reply(command, prior.outcome, prior.answer, replayed=True)

    def _reply(self, command: Command, outcome: Outcome, body: bytes, *, replayed: bool = False) -> None:
        if command.is_awaited:
            self.result.replies.append(Reply(command.reply_to, command.reply_id, outcome, replayed, body))


def _refusal(rejection: Rejection) -> bytes:
    return _json.encode({"code": rejection.code, "detail": rejection.detail, **rejection.extra})


def _validate(operation: Operation, command: Command, *, is_from_ingress: bool) -> Rejection | None:
    """Normalizes the payload in place. Returns a refusal if it, or an identity in the envelope, is not allowed.

    The ingress has looked at the identities of what it signs.
    """
    command.payload, wrong = operation.normalize(command.payload)
    if operation.scope is not None and not is_from_ingress:
        for name, text in (("idempotency_key", command.idempotency_key), ("request_id", command.request_id)):
            if card_number.holds_card_number(text):
                wrong.append({"field": name, "reason": card_number.REFUSED})
    return wrong_values(wrong) if wrong else None


def envelope_fault(command: Command) -> str | None:
    """The reason why the identities of a command cannot be stored; such a record is parked as undecodable."""
    for name, value, length_max in (
        ("idempotency_key", command.idempotency_key, limits.IDEMPOTENCY_KEY_LENGTH_MAX),
        ("request_id", command.request_id, limits.REQUEST_ID_LENGTH_MAX),
        ("aggregate_key", command.aggregate_key, limits.AGGREGATE_KEY_LENGTH_MAX),
        ("scope", command.scope, limits.SCOPE_LENGTH_MAX),
        ("trace_id", command.trace_id, limits.REQUEST_ID_LENGTH_MAX),
    ):
        if reason := validation.clean_text(value, length_max):
            return f"{name} {reason}"
    return None

"""One payment whose facts come through every door on a virtual clock: the doors' own builders, the owner's own fold,
workspace and events.

No server and no sleep. A telling happens some time after its fact. The world knows what it was told and no more: the
merchant takes its next step once it may, and the processor's next facts follow from that.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from dataflows.owner.batch import Record
from dataflows.owner.transaction.fold import Fold, Known
from dataflows.payments.attempts import facts
from dataflows.payments.domain.decision import Payment
from dataflows.payments.domain.policies.fees import fee_minor
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from dataflows.payments.service import payments_service
from dataflows.payments.webhooks import commands as webhooks
from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange
from reconciliation.payments.settlement import commands as settlement
from schemas.avro import codec
from schemas.payments.facts import FAILED_LATER, outcome_key
from schemas.payments.topics import PARTITIONS
from schemas.records import Command, Event
from schemas.topics import partition_for
from tests.unit.payments.test_payments_remembered import NoChain
from tests.worlds.payments import payment_cases as cases

INTENT: Final = "pi_" + "a" * 26
PLACE: Final = partition_for(INTENT, PARTITIONS)
AMOUNT: Final = 10_000
REFUNDS: Final = (1_500, 2_500)
DISPUTED: Final = {"dis_1": 2_000, "dis_2": 1_000}
DUE_MS: Final = 1_900_000_000_000
OPEN: Final = frozenset({"created", "pending", "unknown", "requires_action", "manual_review"})
DOUBTS: Final = ("unknown", "pending")
_CODES: Final = {"failed": "expired_card", FAILED_LATER: "expired_card", "voided": "expired"}
_SAID_BESIDE: Final = {
    "requires_action": {"redirect_url": "https://acs.example/1"},
    "authorized": {"authorized_until": 1_900_000_000_000_000},
}
_SUCCESS: Final = {"authorize": "authorized", "purchase": "captured", "capture": "captured"}
_EVENTS: Final = {
    "authorized": "charge.authorized",
    "captured": "charge.captured",
    "refunded": "refund.succeeded",
    "failed": "refund.failed",
    FAILED_LATER: "refund.failed",
    "requires_action": "charge.requires_action",
    "voided": "charge.expired",
}
#: at which doors a fact may be told; a line of a settlement is a door too, for what is still open when it comes
DOORS: Final = {"outcome": ("answer", "webhook", "poll"), FAILED_LATER: ("webhook", "poll")}


@dataclass(frozen=True)
class Truth:
    """What happens to the payment."""

    manual: bool
    refunds: tuple[str, ...]  # refunded, failed or failed_later
    disputes: tuple[tuple[str, str, str], ...]  # the bank's name for it, state, funds
    finding: str  # of the capture's line in the settlement
    lines_of_refunds: bool
    acts: bool = False  # the payer had to do something first
    expires: bool = False  # nobody captures, and the hold ends by itself


@dataclass(frozen=True)
class Plan:
    """Who tells what, and how long (seconds) after it happened. A fact without a plan is told at once by an answer."""

    tellings: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # fact to doors and delays
    doubts: list[tuple[int, str, int]] = field(default_factory=list)  # attempt, unknown or pending, delay

    def of(self, fact: str, door: str) -> Iterable[tuple[str, int]]:
        """The doors and delays of a fact."""
        return self.tellings.get(fact, [(door, 0)])


class Move(NamedTuple):
    """Money that an event moved: which operation's event, the posting that it carries, and by how much each account changed.

    Two histories have the same events when they have the same moves. One event may carry two of them (a capture told
    before its authorization) where two events carry one each, so how moves are spread over events is left open, and so
    are events that move nothing: how many facts were stale depends on their order. What is pending and what is available
    count as one here: a refund takes from the one or the other, as its capture has settled by then or not.
    """

    operation: str
    kind: str
    reference: str
    changes: tuple[tuple[str, int], ...]


def _move(operation: str, txn: dict[str, Any]) -> Move:
    changes: Counter[str] = Counter()
    for entry in txn["entries"]:
        account = entry["account_id"].replace("merchant_pending:", "merchant_available:")
        changes[account] += entry["debit"] - entry["credit"]
    return Move(operation, txn["kind"], txn["reference"], tuple(sorted((a, n) for a, n in changes.items() if n)))


class World:
    """A payment, told by its plan until nothing is left to tell."""

    def __init__(self, truth: Truth, plan: Plan) -> None:
        self.truth, self.plan = truth, plan
        owned = PaymentsPartition(NoChain(), PLACE, cases.CONTEXT.fees, cases.PROCESSOR, PolicyBook())  # type: ignore[arg-type]
        self.workspace = owned.begin([])  # one batch, however long: what an owner would write is looked at, not written
        self.events: list[Event] = []
        self.known: dict[tuple[str, str], Known] = {}
        self.copies = 0
        self._queue: list[tuple[int, int, Callable[[], list[Command]]]] = []
        self._numbers = itertools.count()
        self._now = 0
        self._begun: set[int] = set()

    def run(self) -> World:
        """Tells everything in the order of time; the merchant goes on as soon as it can."""
        self._hear(_on_intent(cases.create(amount=AMOUNT, capture="manual" if self.truth.manual else "automatic")))
        self._hear(_on_intent(cases.confirm()))
        self._go_on()
        while self._queue:
            self._now, _, tell = heapq.heappop(self._queue)
            for command in tell():
                self._hear(command)
                self._go_on()
        return self

    @property
    def payment(self) -> Payment:
        """As the rows would be."""
        return self.workspace.payments[INTENT]

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """The ledger transactions as the rows would be."""
        return [msgspec.to_builtins(txn) for txn, _ in self.workspace.ledger.txns]

    @property
    def balances(self) -> Counter[str]:
        """What the ledger adds up to, by account."""
        found: Counter[str] = Counter()
        for entry in (entry for txn in self.ledger for entry in txn["entries"]):
            found[entry["account_id"]] += entry["debit"] - entry["credit"]
        return found

    @property
    def moves(self) -> list[Move]:
        """Everything that the events say of money."""
        return sorted(_move(event.operation, txn) for event in self.events for txn in event.body["ledger_txns"])

    @property
    def told(self) -> dict[tuple[str, object], dict[str, Any]]:
        """What the last event about each resource says of it: all that a consumer of the stream knows."""
        found: dict[tuple[str, object], dict[str, Any]] = {}
        for body in (event.body for event in self.events):
            found["payment_intent", INTENT] = body["payment_intent"]
            for attempt in filter(None, (body["caused_by"], body["processor_attempt"])):
                found["attempt", attempt["attempt"]] = attempt
            for kind in ("refund", "dispute"):
                if body[kind]:
                    found[kind, body[kind]["id"]] = body[kind]
        return found

    @property
    def rows(self) -> dict[tuple[str, object], dict[str, Any]]:
        """The same of the rows that an owner would write."""
        found: dict[tuple[str, object], Any] = {("payment_intent", INTENT): self.payment.intent}
        found |= {("attempt", number): attempt for number, attempt in self.payment.attempts.items()}
        found |= {("refund", refund.id): refund for refund in self.payment.refunds.values()}
        found |= {("dispute", dispute.id): dispute for dispute in self.payment.disputes.values()}
        return {key: structs.asdict(row) for key, row in found.items()}

    def _hear(self, command: Command) -> None:
        prior = self.known.get((command.scope, command.idempotency_key))
        if prior is not None:
            self.copies += 1
            assert prior.request_hash == command.request_hash, "doors tell one fact in one way"
        fold = Fold(payments_service(), PLACE, len(self.events), self.known, set(), self.workspace)
        folded = fold.run([Record(len(self.known), b"", command)], cases.CONTEXT.now)
        self.events += [codec.decode_event(event.payload) for event in folded.events]

    def _go_on(self) -> None:
        """What the merchant and the processor do next, now that this much is known."""
        payment, truth = self.payment, self.truth
        if payment.intent.state == "requires_capture" and len(payment.attempts) == 1 and not truth.expires:
            self._hear(_on_intent(cases.capture()))
        if payment.intent.amount_received and not payment.refunds:
            for number, amount in enumerate(REFUNDS):
                self._hear(_on_intent(structs.replace(cases.refund(amount, key=f"r{number}"), payload={
                    "payment_intent": INTENT, "amount": amount, "reason": None, "metadata": {}})))  # fmt: skip
            for dispute in truth.disputes:
                self._plan(" ".join(dispute), "webhook", lambda _, d=dispute: [self._dispute(*d)])
        for number in sorted(self.payment.attempts.keys() - self._begun):
            self._begun.add(number)
            self._begin(number)

    def _begin(self, number: int) -> None:
        """The processor carries out an attempt: its facts are true from now on, whenever somebody tells them."""
        attempt = self.payment.attempts[number]
        for of, status, delay in self.plan.doubts:
            if of == number:
                self._at(delay, lambda s=status, d=delay: [self._outcome(number, s, "answer", send_count=d)])
        if attempt.kind == "refund":
            outcome = self.truth.refunds[number - 2 - self.truth.manual]
            last = "failed" if outcome == "failed" else "refunded"
            self._tell_outcome(number, last)
            if outcome == FAILED_LATER:
                self._tell_outcome(number, FAILED_LATER, first_door="webhook")
            if self.truth.lines_of_refunds and last == "refunded":
                self._plan(f"line {number}", "settlement", lambda _: self._lines(number, "matched"))
            return
        if self.truth.acts and attempt.kind != "capture":
            self._tell_outcome(number, "requires_action")
        self._tell_outcome(number, _SUCCESS[attempt.kind])
        if self.truth.expires:
            self._tell_outcome(number, "voided", first_door="webhook")
        if attempt.kind != "authorize":
            self._plan(f"line {number}", "settlement", lambda _: self._lines(number, self.truth.finding))
            if self.truth.finding == "duplicate":
                self._plan(f"second line {number}", "settlement", lambda _: self._lines(number, "matched"))

    def _tell_outcome(self, number: int, status: str, first_door: str = "answer") -> None:
        self._plan(f"{status} {number}", first_door, lambda door: [self._outcome(number, status, door)])

    def _plan(self, fact: str, first_door: str, tell: Callable[[str], list[Command]]) -> None:
        for door, delay in self.plan.of(fact, first_door):
            self._at(delay, lambda d=door: tell(d))

    def _at(self, delay: int, tell: Callable[[], list[Command]]) -> None:
        heapq.heappush(self._queue, (self._now + delay, next(self._numbers), tell))

    def _outcome(self, number: int, status: str, door: str, send_count: int = 1) -> Command:
        attempt = self.payment.attempts[number]
        ends = status not in DOUBTS
        said: dict[str, Any] = {
            "operation_id": attempt.operation_id,
            "provider_ref": f"pr_{number}" if ends else None,
            "amount": attempt.amount,
            "currency": attempt.currency,
            "error_code": _CODES.get(status),
            **_SAID_BESIDE.get(status, {}),
        }
        if door == "webhook":
            if until := said.pop("authorized_until", None):
                said["authorized_until_ms"] = until // 1_000
            return _webhook(_EVENTS[status], said | {"reference": INTENT, "after_success": status == FAILED_LATER})
        fact = facts.Fact(intent_id=INTENT, attempt=number, processor=cases.PROCESSOR, trace_id="0" * 32,
                          send_count=send_count, status=status, **said)  # fmt: skip
        return facts.command_of(fact, self._now)

    def _dispute(self, name: str, state: str, funds: str) -> Command:
        return _webhook("dispute.updated", {
            "dispute_id": name, "reference": INTENT, "status": state, "funds": funds, "amount": DISPUTED[name],
            "currency": "usd", "fee": 1_500, "reason": "fraudulent",
            "evidence_due_by_ms": DUE_MS + len(funds),  # it was extended when the funds were taken
        })  # fmt: skip

    def _lines(self, number: int, finding: str) -> list[Command]:
        """What reconciliation tells of a line: of what is open still that it happened, then the line itself."""
        attempt = self.payment.attempts[number]
        is_refund = attempt.kind == "refund"
        payload: dict[str, object] = {
            "operation_id": attempt.operation_id, "attempt": number,
            "status": "refunded" if is_refund else "captured", "provider_ref": f"pr_{number}",
            "amount": attempt.amount, "currency": attempt.currency, "error_code": None,
        }  # fmt: skip
        told = []
        if attempt.status in OPEN:
            told = [settlement.outcome_command(cases.PROCESSOR, attempt.operation_id, payload, INTENT, self._now)]
        off = {"short": 7, "over": 9, "duplicate": attempt.amount}.get(finding, 0)
        fee = 0 if is_refund else fee_minor(attempt.amount, cases.CONTEXT.fees.processor_bps) + 3
        due = settlement.Due(
            processor=cases.PROCESSOR, line_id=f"rep:{number}:{finding}", type="refund" if is_refund else "charge",
            operation_id=attempt.operation_id, currency="USD", gross=-attempt.amount if is_refund else attempt.amount,
            fee=fee, difference=off, net=0, net_currency="USD", finding=finding, matched=attempt.operation_id,
            intent_id=INTENT, attempt=number, counterpart=None,
        )  # fmt: skip
        return [*told, settlement.command_of(due, self._now)]


def _webhook(event_type: str, data: dict[str, Any]) -> Command:
    body = msgspec.json.encode({"id": "evt", "type": event_type, "created": 1, "data": data})
    found = vocabulary.read(cases.PROCESSOR, event_type, body)
    if isinstance(found, DisputeChange):
        key, operation, payload = webhooks.dispute_key(found), cases.DISPUTE, vocabulary.dispute_payload(found)
    else:
        assert isinstance(found, AttemptOutcome), found
        number = int(found.operation_id.rpartition("_")[2])
        operation, payload = cases.OUTCOME, vocabulary.outcome_payload(found, number)
        key = outcome_key(found.operation_id, found.status)
        if found.after_success:
            key = outcome_key(found.operation_id, FAILED_LATER)
    return webhooks.command_of(operation, cases.PROCESSOR, key, INTENT, payload, "evt", 0)


def _on_intent(command: Command) -> Command:
    """A command of the merchant; each has an identity of its own."""
    key = f"{command.operation}:{command.idempotency_key}"
    return structs.replace(command, aggregate_key=INTENT, idempotency_key=key)

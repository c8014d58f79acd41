"""The records that cross a boundary, by the spec's names. Plain data: no clock, no I/O.

Times are integers of microseconds since the epoch; amounts are integers of minor units.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

IntentState = Literal[
    "requires_payment_method",
    "requires_confirmation",
    "requires_action",
    "requires_merchant_action",
    "processing",
    "requires_capture",
    "succeeded",
    "canceled",
]
AttemptKind = Literal["authorize", "purchase", "increment", "capture", "void", "refund", "evidence"]
AttemptStatus = Literal[
    "created",
    "pending",
    "unknown",
    "authorized",
    "captured",
    "voided",
    "refunded",
    "declined",
    "failed",
    "manual_review",
    "requires_action",  # the payer has to do something first
    "blocked",  # by risk: never sent
    "submitted",  # evidence that lies with the processor
]
RefundState = Literal["pending", "requires_action", "succeeded", "failed", "canceled"]
RefundPendingReason = Literal["processing", "insufficient_funds", "charge_pending"]
DisputeState = Literal[
    "warning_needs_response",
    "warning_under_review",
    "warning_closed",
    "needs_response",
    "under_review",
    "appeal_needs_response",
    "appeal_under_review",
    "won",
    "lost",
    "prevented",
]
DisputeFunds = Literal["none", "withdrawn", "reinstated"]
EvidenceState = Literal["draft", "submitted"]
RiskOutcome = Literal["allow", "review", "block"]
AccountState = Literal["active", "frozen"]
PayoutState = Literal["pending", "paid", "failed", "canceled"]
Outcome = Literal["committed", "refused", "parked", "expired"]


class Command(Struct, kw_only=True):
    """One command of the spec's envelope, as it lies in a command topic."""

    operation: str  # a key of schemas.services.OPERATIONS
    request_id: str
    idempotency_key: str
    aggregate_key: str
    expected_version: int | None
    scope: str  # merchant or tenant; "processor:<name>" for facts
    request_hash: bytes
    trace_id: str
    issued_at: int
    deadline_at: int  # 0 = none
    reply_to: int  # partition of results.v1; -1 = nobody waits
    reply_id: int
    payload: dict[str, object]
    signals: dict[str, str] | None = None  # what the ingress saw of a confirm or approval; no part of the request


class Rejection(Struct, frozen=True):
    """A refusal decided by the domain; stored as the idempotency result and returned again on a retry."""

    code: str
    detail: str
    extra: dict[str, object] = field(default_factory=dict)


class Denial(Rejection, frozen=True):
    """A refusal for now: it is not stored, and the same identity may ask again."""


class PaymentIntent(Struct, kw_only=True):
    """The aggregate of payments, spec 1 section 2."""

    id: str
    merchant_id: str
    amount: int
    currency: str
    state: IntentState
    version: int
    capture_method: Literal["automatic", "manual"]
    payment_method: str | None
    processor: str
    amount_capturable: int
    amount_received: int
    amount_refunded: int
    amount_disputed: int
    last_payment_error: str | None
    cancellation_reason: str | None
    latest_attempt: int
    metadata: dict[str, str]
    created_at: int
    updated_at: int
    amount_pending: int = 0  # the merchant's share of what was received, fees taken, that is not settled yet
    next_action: str | None = None  # what the payer has to do: a URL
    authorized_until: int | None = None  # when the hold on the card ends


class ProcessorAttempt(Struct, kw_only=True):
    """One try to move money at a processor; durable before any I/O. ``operation_id`` is its identity there."""

    intent_id: str
    attempt: int
    kind: AttemptKind
    status: AttemptStatus
    operation_id: str
    processor: str
    amount: int
    currency: str
    payment_method: str
    parent_ref: str | None  # the provider_ref of what an increment, capture, void, refund or evidence works on
    final: bool  # a capture that releases what it does not take; a refund that failed after it had succeeded
    provider_ref: str | None
    error_code: str | None
    created_at: int
    updated_at: int
    settled_line: str | None = None  # the settlement line that matched it; an attempt is settled once
    route: str | None = None  # why this processor: the version and the rule that chose it


class Refund(Struct, kw_only=True):
    """Money on its way back to the payer. It lives in the aggregate of its payment; so does its attempt."""

    id: str
    intent_id: str
    merchant_id: str
    attempt: int  # number of its attempt in the intent
    amount: int
    currency: str
    state: RefundState
    reason: str | None
    failure_reason: str | None
    from_pending: int  # the part that was taken from unsettled money; a failure puts it back there
    metadata: dict[str, str]
    version: int
    created_at: int
    updated_at: int
    pending_reason: RefundPendingReason | None = None  # while it is pending; None then = of before it was kept


class Dispute(Struct, kw_only=True):
    """A payer's bank takes the payment into question. Money moves with ``funds``, never with ``state``."""

    id: str
    intent_id: str
    merchant_id: str
    processor: str
    provider_ref: str
    amount: int
    currency: str
    fee: int
    reason: str | None
    state: DisputeState
    funds: DisputeFunds
    version: int
    created_at: int
    updated_at: int
    evidence: dict[str, str] | None = None  # what the merchant says about it
    evidence_state: EvidenceState | None = None


class RiskReason(Struct, frozen=True):
    """A rule that hit: its name, what it added to the score, and what it saw, for people."""

    rule: str
    score: int
    detail: str
    shadow: bool  # a rule in shadow mode: it would have hit, and decided nothing


class RiskAssessment(Struct, kw_only=True):
    """What the risk rules, or an operator, said of one confirm. Written in the commit that it decided."""

    intent_id: str
    attempt: int  # that it let through, or would have
    outcome: RiskOutcome
    score: int  # 0 to 100
    policy_version: int
    reasons: list[RiskReason]
    decided_by: str | None  # the operator that approved or rejected; None = the rules
    created_at: int


class MerchantAccount(Struct, kw_only=True):
    """The aggregate of a merchant's payouts and reserves. Its money is on ledger accounts."""

    id: str
    merchant_id: str
    state: AccountState
    frozen_reason: str | None
    version: int
    created_at: int
    updated_at: int


class Payout(Struct, kw_only=True):
    """Money on its way from us to a merchant's bank. It lives in the aggregate of the merchant's account."""

    id: str
    account_id: str
    merchant_id: str
    amount: int
    currency: str
    state: PayoutState
    destination: str  # the merchant's name of its bank account
    failure_reason: str | None
    metadata: dict[str, str]
    version: int
    created_at: int
    updated_at: int


class LedgerEntry(Struct, frozen=True):
    """One side of a posting; exactly one of debit and credit is above zero."""

    account_id: str
    debit: int
    credit: int
    currency: str


class LedgerTxn(Struct, kw_only=True):
    """A balanced ledger transaction. ``reference`` is unique for ever: a fact posts once, whatever its door."""

    txn_id: int
    reference: str
    kind: str
    effective_at: int
    entries: list[LedgerEntry]


class Event(Struct, kw_only=True):
    """The durable event envelope, spec 1 section 6, with the position that makes its stream gapless."""

    event_id: str
    aggregate_key: str
    event_type: str
    schema_version: int
    trace_id: str
    seq: int  # 1, 2, 3 ... within its partition
    occurred_at: int
    version: int  # of the aggregate
    scope: str
    operation: str
    body: dict[str, object]


class Result(Struct, kw_only=True):
    """What a waiting ingress hears: the outcome of one command after its commit."""

    reply_id: int
    outcome: Outcome
    replayed: bool
    body: bytes  # JSON: {"result", "event"} or {"code", "detail", ...}

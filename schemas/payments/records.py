"""The records of payments, by the spec's names. Plain data: no clock, no I/O.

Times are integers of microseconds since the epoch; amounts are integers of minor units.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from schemas import limits
from schemas.fields.column import AGREED, ALWAYS, LATER, MOVES, UPDATED, Column

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
DestinationState = Literal["enabled", "disabled"]


class PaymentIntent(Struct, kw_only=True):
    """The aggregate of payments, spec 1 section 2."""

    id: Annotated[str, Column("primary key", key=True, analytical=True)]
    merchant_id: Annotated[str, Column("owner", analytical=True)]
    amount: Annotated[int, Column("minor units", written=AGREED, analytical=True, minimum=1)]
    currency: Annotated[str, Column("ISO 4217", written=AGREED, analytical=True)]
    state: Annotated[IntentState, Column("see reference of states", written=MOVES, analytical=True)]
    version: Annotated[int, Column("of the aggregate", written=ALWAYS, analytical=True, minimum=1)]
    capture_method: Annotated[
        Literal["automatic", "manual"], Column("automatic or manual", written=AGREED, analytical=True)
    ]
    payment_method: Annotated[str | None, Column("token", written=MOVES)]
    processor: Annotated[str, Column("that serves it", written=MOVES, analytical=True)]
    amount_capturable: Annotated[int, Column("minor units", written=MOVES, analytical=True, minimum=0)]
    amount_received: Annotated[int, Column("minor units", written=MOVES, analytical=True, minimum=0)]
    amount_refunded: Annotated[int, Column("minor units", written=MOVES, analytical=True, minimum=0)]
    amount_disputed: Annotated[int, Column("minor units", written=MOVES, analytical=True, minimum=0)]
    last_payment_error: Annotated[str | None, Column("code of the last failure", written=MOVES, analytical=True)]
    cancellation_reason: Annotated[str | None, Column("why it was canceled", written=MOVES, analytical=True)]
    latest_attempt: Annotated[
        int, Column("number of the newest attempt, 0 = none", ordinal=True, written=MOVES, analytical=True, minimum=0)
    ]
    metadata: Annotated[dict[str, str], Column("the merchant's own", written=AGREED)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]
    amount_pending: Annotated[
        int,
        Column(
            "of what was received, the merchant's share that has not been settled; minor units",
            written=MOVES,
            shown=None,
            minimum=0,
        ),
    ] = 0
    next_action: Annotated[
        str | None,
        Column("what the payer has to do: a URL, or a JSON object of its kind; null when nothing", written=LATER),
    ] = None
    authorized_until: Annotated[
        int | None, Column("when the hold on the card ends, microseconds since the epoch", time=True, written=LATER)
    ] = None
    reference: Annotated[
        str | None,
        Column(
            "the merchant's own name of it, to find it by",
            written=AGREED,
            analytical=True,
            listed=True,
            length_max=limits.REFERENCE_LENGTH_MAX,
            since=5,
        ),
    ] = None
    description: Annotated[str | None, Column("for the payer: what it is for", written=AGREED, since=6)] = None
    receipt_email: Annotated[str | None, Column("where the processor sends a receipt", written=AGREED, since=6)] = None
    statement_descriptor: Annotated[
        str | None, Column("for the payer's statement, behind the merchant's name", written=AGREED, since=6)
    ] = None
    return_url: Annotated[str | None, Column("where the payer goes after a challenge", written=AGREED, since=6)] = None


class ProcessorAttempt(Struct, kw_only=True):
    """One try to move money at a processor; durable before any I/O. ``operation_id`` is its identity there."""

    intent_id: Annotated[str, Column("its intent", key=True, analytical=True)]
    attempt: Annotated[int, Column("1, 2, 3 ... within the intent", ordinal=True, key=True, analytical=True, minimum=0)]
    kind: Annotated[AttemptKind, Column("authorize, purchase, capture, void or refund", analytical=True)]
    status: Annotated[AttemptStatus, Column("see reference of states", written=MOVES, analytical=True)]
    operation_id: Annotated[str, Column("identity at the processor", analytical=True)]
    processor: Annotated[str, Column("which", analytical=True)]
    amount: Annotated[int, Column("minor units", analytical=True, minimum=0)]
    currency: Annotated[str, Column("ISO 4217", analytical=True)]
    payment_method: Annotated[str, Column("token")]
    parent_ref: Annotated[
        str | None, Column("provider_ref of the authorization or capture it works on", analytical=True)
    ]
    final: Annotated[
        bool,
        Column(
            "a capture that releases the rest; a refund that failed after it had succeeded; any purchase but one that"
            " took money beside another",
            written=MOVES,
            analytical=True,
        ),
    ]
    provider_ref: Annotated[str | None, Column("the processor's own id", written=MOVES, analytical=True)]
    error_code: Annotated[str | None, Column("why it failed", written=MOVES, analytical=True)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]
    settled_line: Annotated[str | None, Column("settlement line that matched it", written=MOVES)] = None
    route: Annotated[str | None, Column("why this processor: the version and the rule that chose it")] = None


class Refund(Struct, kw_only=True):
    """Money on its way back to the payer. It lives in the aggregate of its payment; so does its attempt."""

    id: Annotated[str, Column("primary key", key=True, analytical=True)]
    intent_id: Annotated[str, Column("the payment that is refunded", analytical=True, shown="payment_intent")]
    merchant_id: Annotated[str, Column("owner", analytical=True)]
    attempt: Annotated[
        int, Column("number of its attempt; 0 = none yet", ordinal=True, analytical=True, shown=None, minimum=0)
    ]
    amount: Annotated[int, Column("minor units", analytical=True, minimum=1)]
    currency: Annotated[str, Column("ISO 4217", analytical=True)]
    state: Annotated[
        RefundState, Column("pending, requires_action, succeeded, failed or canceled", written=MOVES, analytical=True)
    ]
    reason: Annotated[str | None, Column("the merchant's", analytical=True)]
    failure_reason: Annotated[str | None, Column("why it failed", written=MOVES, analytical=True)]
    from_pending: Annotated[
        int,
        Column(
            "the part taken from unsettled money, minor units", written=MOVES, analytical=True, shown=None, minimum=0
        ),
    ]
    metadata: Annotated[dict[str, str], Column("the merchant's own")]
    version: Annotated[int, Column("of the refund", written=MOVES, analytical=True, minimum=1)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]
    pending_reason: Annotated[
        RefundPendingReason | None,
        Column("why it is pending; null = it is not, or nobody kept it", written=MOVES, analytical=True, since=4),
    ] = None


class Dispute(Struct, kw_only=True):
    """A payer's bank takes the payment into question. Money moves with ``funds``, never with ``state``."""

    id: Annotated[str, Column("primary key", key=True, analytical=True)]
    intent_id: Annotated[str, Column("the payment that is disputed", analytical=True, shown="payment_intent")]
    merchant_id: Annotated[str, Column("owner", analytical=True)]
    processor: Annotated[str, Column("that reported it", analytical=True)]
    provider_ref: Annotated[str, Column("the processor's own id", analytical=True, shown=None)]
    amount: Annotated[int, Column("minor units", analytical=True, minimum=1)]
    currency: Annotated[str, Column("ISO 4217", analytical=True)]
    fee: Annotated[
        int, Column("what the processor takes for it, minor units", written=MOVES, analytical=True, minimum=0)
    ]
    reason: Annotated[str | None, Column("the network's", written=MOVES, analytical=True)]
    state: Annotated[DisputeState, Column("see reference of states", written=MOVES, analytical=True)]
    funds: Annotated[DisputeFunds, Column("none, withdrawn or reinstated", written=MOVES, analytical=True)]
    version: Annotated[int, Column("of the dispute", written=MOVES, analytical=True, minimum=1)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]
    evidence: Annotated[
        dict[str, str] | None, Column("what the merchant says about it", written=UPDATED, shown=None)
    ] = None
    evidence_state: Annotated[EvidenceState | None, Column("draft or submitted", written=UPDATED)] = None
    evidence_due_by: Annotated[
        int | None,
        Column(
            "by when the processor wants evidence, microseconds since the epoch; null = it wants none, or did not say",
            time=True,
            written=MOVES,
            analytical=True,
            since=8,
        ),
    ] = None


class RiskReason(Struct, frozen=True):
    """A rule that hit: its name, what it added to the score, and what it saw, for people."""

    rule: Annotated[str, Column("the rule's name")]
    score: Annotated[int, Column("what it added", ordinal=True, minimum=0)]
    detail: Annotated[str, Column("what it saw, for people")]
    shadow: Annotated[bool, Column("a rule in shadow mode: it would have hit, and decided nothing")]


class RiskAssessment(Struct, kw_only=True):
    """What the risk rules, or an operator, said of one confirm. Written in the commit that it decided."""

    intent_id: Annotated[str, Column("the payment")]
    attempt: Annotated[int, Column("the attempt that it let through, or would have", ordinal=True, minimum=0)]
    outcome: Annotated[RiskOutcome, Column("allow, review or block")]
    score: Annotated[int, Column("0 to 100", ordinal=True, minimum=0)]
    policy_version: Annotated[int, Column("of the rules that decided", ordinal=True, minimum=0)]
    reasons: Annotated[list[RiskReason], Column("the rules that hit, with what they saw")]
    decided_by: Annotated[str | None, Column("the operator that approved or rejected; null = the rules")]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True)]


class MerchantAccount(Struct, kw_only=True):
    """The aggregate of a merchant's payouts and reserves. Its money is on ledger accounts."""

    id: Annotated[str, Column("primary key", key=True, analytical=True)]
    merchant_id: Annotated[str, Column("whose it is", analytical=True)]
    state: Annotated[AccountState, Column("active or frozen", written=MOVES, analytical=True)]
    frozen_reason: Annotated[str | None, Column("why, null when active", written=MOVES)]
    version: Annotated[int, Column("of the aggregate", written=MOVES, analytical=True, minimum=0)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]


class Payout(Struct, kw_only=True):
    """Money on its way from us to a merchant's bank. It lives in the aggregate of the merchant's account."""

    id: Annotated[str, Column("primary key", key=True, analytical=True)]
    account_id: Annotated[str, Column("the account that it is a part of", analytical=True, shown=None)]
    merchant_id: Annotated[str, Column("who is paid", analytical=True)]
    amount: Annotated[int, Column("minor units", analytical=True, minimum=1)]
    currency: Annotated[str, Column("ISO 4217", analytical=True)]
    state: Annotated[PayoutState, Column("pending, paid, failed or canceled", written=MOVES, analytical=True)]
    destination: Annotated[str, Column("a registered destination, or the merchant's name of its bank account")]
    failure_reason: Annotated[str | None, Column("why it failed", written=MOVES, analytical=True)]
    metadata: Annotated[dict[str, str], Column("the merchant's own")]
    version: Annotated[int, Column("of the payout", written=MOVES, analytical=True, minimum=0)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True, analytical=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES, analytical=True)]


class PayoutDestination(Struct, kw_only=True):
    """A bank account that a merchant may be paid at. Its number stands beside it, in the owner's table alone."""

    id: Annotated[str, Column("primary key", key=True)]
    account_id: Annotated[str, Column("the account that it is a part of", shown=None)]
    merchant_id: Annotated[str, Column("who is paid there")]
    name: Annotated[str, Column("the merchant's name of it")]
    country: Annotated[str | None, Column("ISO 3166-1 alpha-2, of an IBAN")]
    bank_code: Annotated[str | None, Column("the bank, of a number that is no IBAN")]
    last4: Annotated[str, Column("the end of the account number; nobody else is shown more of it")]
    state: Annotated[DestinationState, Column("enabled or disabled, which is for good", written=MOVES)]
    usable_at: Annotated[
        int, Column("no payout goes there before, microseconds since the epoch", time=True, written=MOVES)
    ]
    version: Annotated[int, Column("of the destination", written=MOVES, minimum=1)]
    created_at: Annotated[int, Column("microseconds since the epoch", time=True)]
    updated_at: Annotated[int, Column("microseconds since the epoch", time=True, written=MOVES)]


class LedgerEntry(Struct, frozen=True):
    """One side of a posting; exactly one of debit and credit is above zero."""

    account_id: Annotated[str, Column("account, its last part is the currency")]
    debit: Annotated[int, Column("minor units", minimum=0)]
    credit: Annotated[int, Column("minor units", minimum=0)]
    currency: Annotated[str, Column("ISO 4217")]


class LedgerTxn(Struct, kw_only=True):
    """A balanced ledger transaction. ``reference`` is unique for ever: a fact posts once, whatever its door."""

    txn_id: Annotated[int, Column("position in the ledger", minimum=0)]
    reference: Annotated[str, Column("unique: a fact posts once")]
    kind: Annotated[str, Column("authorize, capture, void ...")]
    effective_at: Annotated[int, Column("microseconds since the epoch", time=True)]
    entries: Annotated[list[LedgerEntry], Column("balanced per currency")]


class PaymentEventBody(Struct, kw_only=True):
    """What an event of payments holds: whatever this commit made or changed, whole."""

    payment_intent: Annotated[
        PaymentIntent | None, Column("the intent after it; null for a journal entry of the ledger alone")
    ] = None
    processor_attempt: Annotated[ProcessorAttempt | None, Column("the attempt that this commit made or changed")]
    ledger_txns: Annotated[list[LedgerTxn], Column("what this commit posted")]
    refund: Annotated[Refund | None, Column("the refund made or changed")] = None
    dispute: Annotated[Dispute | None, Column("the dispute made or changed")] = None
    caused_by: Annotated[
        ProcessorAttempt | None,
        Column("the attempt whose late capture of a canceled payment made processor_attempt, its refund"),
    ] = None
    risk: Annotated[RiskAssessment | None, Column("the assessment that went with it")] = None
    account: Annotated[MerchantAccount | None, Column("the merchant account after it")] = None
    payout: Annotated[Payout | None, Column("the payout after it")] = None
    payout_destination: Annotated[PayoutDestination | None, Column("the destination made or changed", since=7)] = None

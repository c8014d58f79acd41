"""The merchant's account: the aggregate that decides on payouts, reserves, exchanges and the freeze, at one owner.

Its money is on ledger accounts, which payments of other partitions also credit and debit. A decision uses the balances
that were committed when the batch began, and all that the batch has posted since: two payouts never spend the same
money, and a refund or dispute that another owner commits meanwhile can only make a debt. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field, structs

from dataflows.payments.domain.accounts import account_postings
from dataflows.payments.domain.ledger.posting import Posting
from schemas import identity
from schemas.payments import limits
from schemas.payments.operations import OPERATIONS
from schemas.payments.policies.reference_rates import ReferenceRates
from schemas.payments.records import MerchantAccount, Payout, PayoutDestination
from schemas.records import Command, Rejection

NOT_FOUND: Final = Rejection("not_found", "No such object.", {})


class Account(Struct, kw_only=True):
    """The aggregate as one owner holds it: the account, its payouts that the batch names, its destinations."""

    account: MerchantAccount
    payouts: dict[str, Payout] = field(default_factory=dict)
    destinations: dict[str, PayoutDestination] = field(default_factory=dict)  # all of them, if a command needs them


class PayoutTerms(Struct, frozen=True, kw_only=True):
    """The installation's terms for destinations: how long a new one waits, and whether each must be registered."""

    cooling_off_s: int = limits.PAYOUT_COOLING_OFF_S
    registered_only: bool = False


class AccountContext(Struct, frozen=True, kw_only=True):
    """What a decision may also know: the time (microseconds) and the balances of the merchant's ledger accounts."""

    now: int
    held: Mapping[str, int]  # by ledger account, credits less debits; absent = nothing
    reference_rates: ReferenceRates | None = None  # the last published; None = none
    payouts: PayoutTerms = PayoutTerms()


class AccountDecision(Struct, frozen=True, kw_only=True):
    """The next state of the account and what goes with it in the same commit."""

    account: MerchantAccount
    payout: Payout | None = None  # made or changed
    destination: PayoutDestination | None = None  # made or changed
    account_number: str | None = None  # of a new destination; the record does not contain it
    postings: tuple[Posting, ...] = ()


def ledger_accounts(command: Command) -> tuple[str, ...]:
    """The ledger accounts whose balances the decision on a command needs."""
    wanted: dict[str, Any] = command.payload
    match command.operation:
        case "create_payout":
            return (account_postings.available(command.scope, wanted["currency"]),)
        case "hold_reserve":
            return (account_postings.available(wanted["merchant_id"], wanted["currency"]),)
        case "release_reserve":
            return (account_postings.reserved(wanted["merchant_id"], wanted["currency"]),)
        case "convert_currency":
            return (account_postings.available(wanted["merchant_id"], wanted["source_currency"]),)
    return ()


def opened(merchant: str, now: int) -> MerchantAccount:
    """An account before its first command: version 0, which is never written."""
    return MerchantAccount(
        id=identity.account_id(merchant),
        merchant_id=merchant,
        state="active",
        frozen_reason=None,
        version=0,
        created_at=now,
        updated_at=now,
    )


def advanced(account: MerchantAccount, context: AccountContext, **changes: object) -> MerchantAccount:
    """The account one version on."""
    return structs.replace(account, version=account.version + 1, updated_at=context.now, **changes)


def insufficient(currency: str, **left: int) -> Rejection:
    """The refusal if the merchant has too little; ``left`` says how much there is."""
    (amount,) = left.values()
    return Rejection("insufficient_funds", f"There is {max(0, amount)} {currency} at most.", dict(left))


def decide_freeze(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Lets no new payout begin, and within seconds no payment or refund. What is under way goes on."""
    if account.account.state == "frozen":
        return _state_conflict(account.account)
    reason: Any = command.payload["reason"]
    return AccountDecision(account=advanced(account.account, context, state="frozen", frozen_reason=reason))


def decide_unfreeze(account: Account, _: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Lets the merchant work again."""
    if account.account.state != "frozen":
        return _state_conflict(account.account)
    return AccountDecision(account=advanced(account.account, context, state="active", frozen_reason=None))


def decide_hold(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Sets aside money of the merchant, as far as it has it."""
    wanted: dict[str, Any] = command.payload
    merchant, currency, amount = account.account.merchant_id, wanted["currency"], wanted["amount"]
    held = context.held.get(account_postings.available(merchant, currency), 0)
    if amount > held:
        return insufficient(currency, available=held)
    posting = account_postings.reserve_held(_identity(account, command), merchant, amount, currency)
    return AccountDecision(account=advanced(account.account, context), postings=(posting,))


def decide_release(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Returns reserved money to the merchant, never more than is reserved."""
    wanted: dict[str, Any] = command.payload
    merchant, currency, amount = account.account.merchant_id, wanted["currency"], wanted["amount"]
    held = context.held.get(account_postings.reserved(merchant, currency), 0)
    if amount > held:
        return insufficient(currency, reserved=held)
    posting = account_postings.reserve_released(_identity(account, command), merchant, amount, currency)
    return AccountDecision(account=advanced(account.account, context), postings=(posting,))


def _identity(account: Account, command: Command) -> str:
    """The identity of one change of a reserve: unique for ever, as its command is."""
    template = OPERATIONS[command.operation].template
    return identity.derived_id("rs", account.account.id, f"{command.scope} {template}", command.idempotency_key)


def _state_conflict(account: MerchantAccount) -> Rejection:
    return Rejection(
        "state_conflict",
        f"The account is {account.state}.",
        {"current_state": account.state, "current_version": account.version},
    )

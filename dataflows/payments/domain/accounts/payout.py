"""Payouts: money on its way from us to a merchant's bank, never more than the merchant has available.

Facts of the bank say what becomes of a payout. In any order and from any door they end alike:
  pending -> paid, failed, canceled      canceled -> paid (the bank was faster), failed      paid -> failed (sent back)
A failed payout has failed for good: a later ``paid`` is the older of the two facts, or a case for people.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.accounts import account_postings, destination
from dataflows.payments.domain.accounts.account import (
    NOT_FOUND,
    Account,
    AccountContext,
    AccountDecision,
    advanced,
    insufficient,
)
from dataflows.payments.domain.ledger.posting import Posting
from schemas import identity
from schemas.payments.operations import OPERATIONS
from schemas.payments.records import Payout
from schemas.records import Command, Rejection

_TEMPLATE: Final = OPERATIONS["create_payout"].template


def decide_create(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """A pending payout, whose amount is no longer available."""
    owner, wanted = account.account, command.payload
    if owner.state == "frozen":
        return Rejection("account_frozen", "The account is frozen; nothing is paid out.", {})
    amount: Any = wanted["amount"]
    currency: Any = wanted["currency"]
    paid_to: Any = wanted["destination"]
    metadata: Any = wanted["metadata"]
    if (refusal := destination.refusal(account, paid_to, context)) is not None:
        return refusal
    held = context.held.get(account_postings.available(owner.merchant_id, currency), 0)
    if amount > held:
        return insufficient(currency, available=held)
    payout = Payout(
        id=identity.payout_id(owner.id, command.scope, _TEMPLATE, command.idempotency_key),
        account_id=owner.id,
        merchant_id=owner.merchant_id,
        amount=amount,
        currency=currency,
        state="pending",
        destination=paid_to,
        failure_reason=None,
        metadata=metadata,
        version=1,
        created_at=context.now,
        updated_at=context.now,
    )
    return AccountDecision(
        account=advanced(owner, context), payout=payout, postings=(account_postings.payout_created(payout),)
    )


def decide_cancel(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Cancels a payout about which the bank has said nothing."""
    payout = account.payouts.get(str(command.payload["payout"]))
    if payout is None:
        return NOT_FOUND
    if payout.state != "pending":
        return Rejection(
            "state_conflict",
            f"A payout that is {payout.state} cannot be canceled.",
            {"current_state": payout.state, "current_version": payout.version},
        )
    return _changed(account, payout, context, account_postings.payout_not_paid(payout, "canceled"), state="canceled")


def decide_outcome(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Records what the bank did. Money that has moved is always recorded, also of a frozen merchant."""
    fact: dict[str, Any] = command.payload
    payout = account.payouts.get(fact["payout"])
    if payout is None:
        return NOT_FOUND
    if (fact["amount"], fact["currency"]) != (payout.amount, payout.currency):
        return Rejection(
            "amount_mismatch",
            "The bank moved another amount, or another currency.",
            {"amount": payout.amount, "currency": payout.currency},
        )
    if payout.state in (fact["status"], "failed"):
        return Rejection("stale_fact", "The payout already has this or a later state.", {"current_state": payout.state})
    if fact["status"] == "paid":
        post = account_postings.payout_paid if payout.state == "pending" else account_postings.payout_paid_late
        return _changed(account, payout, context, post(payout, fact["bank"]), state="paid")
    return _changed(
        account, payout, context, _not_paid(payout, fact["bank"]), state="failed", failure_reason=fact["reason"]
    )


def _not_paid(payout: Payout, bank: str) -> Posting | None:
    """Returns the money to the merchant, unless the payout was canceled: then it has it already."""
    if payout.state == "pending":
        return account_postings.payout_not_paid(payout, "failed")
    return account_postings.payout_came_back(payout, bank) if payout.state == "paid" else None


def _changed(
    account: Account, payout: Payout, context: AccountContext, posting: Posting | None, **changes: object
) -> AccountDecision:
    return AccountDecision(
        account=advanced(account.account, context),
        payout=structs.replace(payout, version=payout.version + 1, updated_at=context.now, **changes),
        postings=(posting,) if posting else (),
    )

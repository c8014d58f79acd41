"""Payout destinations: bank accounts that a merchant registered, and whether a payout may go to one. Pure.

A stolen token that may pay out has nowhere to send money: a new destination is announced to the merchant's webhooks,
and gets no money before its cooling-off time is over. Two persons of staff may end that time. A merchant that never
registered one pays out to the name of a bank account, unless the installation takes only registered ones.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.accounts.account import NOT_FOUND, Account, AccountContext, AccountDecision, advanced
from schemas import identity
from schemas.payments import bank_account, limits
from schemas.payments.operations import OPERATIONS
from schemas.payments.records import PayoutDestination
from schemas.records import Command, Rejection
from schemas.renderer import timestamp

_TEMPLATE: Final = OPERATIONS["create_payout_destination"].template
_SHOWN: Final = -4  # the last digits of a number, which are shown
_US: Final = 1_000_000


def refusal(account: Account, name: str, context: AccountContext) -> Rejection | None:
    """The reason why a payout may not go to ``name``; None if it may."""
    if not account.destinations and not context.payouts.registered_only:
        return None
    found = account.destinations.get(name)
    if found is None:
        return _not_usable("not_registered", "The destination is not one that the merchant registered.")
    if found.state == "disabled":
        return _not_usable("disabled", "The destination is disabled.")
    if context.now < found.usable_at:
        return _not_usable("cooling_off", "The destination is too new.", timestamp(found.usable_at))
    return None


def decide_create(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """A destination that becomes usable when its cooling-off time is over."""
    owner, wanted = account.account, command.payload
    if owner.state == "frozen":
        return Rejection("account_frozen", "The account is frozen; no destination is registered.", {})
    if len(account.destinations) >= limits.PAYOUT_DESTINATIONS_MAX:
        most = limits.PAYOUT_DESTINATIONS_MAX
        return Rejection("too_many_destinations", f"A merchant registers {most} at most, disabled ones included.", {})
    name: Any = wanted["name"]
    number: Any = wanted["account_number"]
    bank_code: Any = wanted["bank_code"]
    made = PayoutDestination(
        id=identity.destination_id(owner.id, command.scope, _TEMPLATE, command.idempotency_key),
        account_id=owner.id,
        merchant_id=owner.merchant_id,
        name=name,
        country=None if bank_code else bank_account.country_of(number),
        bank_code=bank_code,
        last4=number[_SHOWN:],
        state="enabled",
        usable_at=context.now + context.payouts.cooling_off_s * _US,
        version=1,
        created_at=context.now,
        updated_at=context.now,
    )
    return AccountDecision(account=advanced(owner, context), destination=made, account_number=number)


def decide_disable(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Stops new payouts to a destination, also of a frozen merchant. Pending payouts go on."""
    found = account.destinations.get(str(command.payload["destination"]))
    if found is None:
        return NOT_FOUND
    if found.state == "disabled":
        return _state_conflict(found)
    return _changed(account, found, context, state="disabled")


def decide_allow(account: Account, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """Ends the cooling-off time of a destination, after two persons of staff have asked the merchant."""
    found = account.destinations.get(str(command.payload["destination"]))
    if found is None:
        return NOT_FOUND
    if found.state == "disabled" or found.usable_at <= context.now:
        return _state_conflict(found)
    return _changed(account, found, context, usable_at=context.now)


def _changed(account: Account, found: PayoutDestination, context: AccountContext, **changes: object) -> AccountDecision:
    later = structs.replace(found, version=found.version + 1, updated_at=context.now, **changes)
    return AccountDecision(account=advanced(account.account, context), destination=later)


def _not_usable(reason: str, detail: str, usable_at: str | None = None) -> Rejection:
    return Rejection("destination_not_usable", detail, {"reason": reason, "usable_at": usable_at})


def _state_conflict(found: PayoutDestination) -> Rejection:
    state = "usable" if found.state == "enabled" else found.state
    return Rejection(
        "state_conflict",
        f"The destination is {state}.",
        {"current_state": found.state, "current_version": found.version},
    )

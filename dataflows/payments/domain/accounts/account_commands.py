"""The entry to merchants' accounts: which function decides which operation, and the rules for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dataflows.payments.domain.accounts import account, destination, fx, payout
from dataflows.payments.domain.accounts.account import NOT_FOUND, Account, AccountContext, AccountDecision
from schemas import identity
from schemas.identity import OPERATOR_SCOPE
from schemas.payments.facts import RECONCILIATION_SCOPE
from schemas.payments.operations import ON_ACCOUNTS
from schemas.records import Command, Rejection
from schemas.refusals import stale

_DECIDE: Final[dict[str, Callable[[Account, Command, AccountContext], AccountDecision | Rejection]]] = {
    "create_payout": payout.decide_create,
    "cancel_payout": payout.decide_cancel,
    "record_payout_outcome": payout.decide_outcome,
    "create_payout_destination": destination.decide_create,
    "disable_payout_destination": destination.decide_disable,
    "allow_payout_destination": destination.decide_allow,
    "hold_reserve": account.decide_hold,
    "release_reserve": account.decide_release,
    "convert_currency": fx.decide_convert,
    "freeze_account": account.decide_freeze,
    "unfreeze_account": account.decide_unfreeze,
}
OPERATIONS_OF_ACCOUNTS: Final = frozenset(_DECIDE)
#: operations whose decision needs all destinations of the account
OPERATIONS_OF_DESTINATIONS: Final = frozenset(
    {"create_payout", "create_payout_destination", "disable_payout_destination", "allow_payout_destination"}
)
_FACT: Final = "record_payout_outcome"  # a fact of the bank, told by reconciliation or an operator
_PAYOUT: Final = frozenset({"cancel_payout", _FACT})
_DESTINATION: Final = "disable_payout_destination"


def decide(known: Account | None, command: Command, context: AccountContext) -> AccountDecision | Rejection:
    """The decision on one command against the current account; pure, and total over every operation on an account.

    The first command on an account that is not refused creates it.
    """
    merchant = _merchant(known, command)
    if merchant is None or identity.account_id(merchant) != command.aggregate_key:
        return NOT_FOUND
    current = known or Account(account=account.opened(merchant, context.now))
    seen = _version_seen(current, command)
    if seen is not None and (refused := stale(command.expected_version, seen)):
        return refused
    return _DECIDE[command.operation](current, command, context)


def is_operators(operation: str) -> bool:
    """Whether only an operator may send this operation."""
    return operation in ON_ACCOUNTS


def _merchant(known: Account | None, command: Command) -> str | None:
    """The merchant whose account it is; None if the caller may not touch it: to others it does not exist."""
    if is_operators(command.operation):
        named: Any = command.payload["merchant_id"]
        return named if command.scope.startswith(OPERATOR_SCOPE) else None
    if command.operation == _FACT:
        may_tell = command.scope == RECONCILIATION_SCOPE or command.scope.startswith(OPERATOR_SCOPE)
        return known.account.merchant_id if known is not None and may_tell else None
    return command.scope


def _version_seen(current: Account, command: Command) -> int | None:
    """The version that the caller can have read: that of the part it works on (None: unknown), else the account's."""
    if command.operation in _PAYOUT:
        paid = current.payouts.get(str(command.payload["payout"]))
        return paid.version if paid else None
    if command.operation == _DESTINATION:
        known = current.destinations.get(str(command.payload["destination"]))
        return known.version if known else None
    return current.account.version

"""Merchants' accounts of one batch in memory: what the database said of them, and what the batch made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dataflows.owner.batch import Statement
from dataflows.payments import account_statements as statements
from dataflows.payments.domain import approval
from dataflows.payments.domain.accounts import account_commands
from dataflows.payments.domain.accounts.account import (
    Account,
    AccountContext,
    AccountDecision,
    PayoutTerms,
    ledger_accounts,
)
from schemas.payments import money_by_hand
from schemas.payments.policies.reference_rates import ReferenceRates
from schemas.payments.records import LedgerTxn, MerchantAccount, Payout, PayoutDestination
from schemas.records import Command, Rejection
from sinks.postgres.arrays import Texts

_ACCOUNT_FIELDS: Final = MerchantAccount.__struct_fields__
_PAYOUT_FIELDS: Final = Payout.__struct_fields__
_DESTINATION_FIELDS: Final = PayoutDestination.__struct_fields__
_METADATA: Final = _PAYOUT_FIELDS.index("metadata")
Rows = Sequence[tuple[Any, ...]]


def reads(commands: Iterable[Command]) -> dict[str, Statement]:
    """The queries for the commands on accounts among these; none when there is no such command, as in most batches."""
    mine = [c for c in commands if c.operation in account_commands.OPERATIONS_OF_ACCOUNTS]
    if not mine:
        return {}
    keys = Texts(list(dict.fromkeys(c.aggregate_key for c in mine)))
    named = Texts([name for c in mine if _is_name(name := str(c.payload.get("payout", "")))])
    asked = Texts(sorted({name for c in mine for name in ledger_accounts(c) if _is_name(name)}))
    found: dict[str, Statement] = {
        "accounts": (statements.SQL["accounts_read"], (keys,)),
        "payouts": (statements.SQL["payouts_read"], (named,)),
        "held": (statements.SQL["held_read"], (asked,)),
    }
    of_destinations = [c.aggregate_key for c in mine if c.operation in account_commands.OPERATIONS_OF_DESTINATIONS]
    if of_destinations:
        found["destinations"] = (statements.SQL["destinations_read"], (Texts(list(dict.fromkeys(of_destinations))),))
    if by_hand := [c.idempotency_key for c in mine if money_by_hand.needs_approval(c)]:
        found["approved"] = (statements.SQL["approved_read"], (Texts(by_hand),))
    return found


class AccountWorkspace:
    """The accounts of one batch. Each is read once and written once, whatever the number of commands."""

    def __init__(
        self,
        partition: int,
        found: Mapping[str, Rows],
        reference_rates: ReferenceRates | None = None,
        payouts: PayoutTerms | None = None,
    ) -> None:
        self._terms = payouts or PayoutTerms()
        self._reference_rates = reference_rates
        self._partition = partition
        self._accounts: dict[str, Account] = {}
        self.elsewhere: set[str] = set()  # accounts that another partition owns
        for *values, owner in found.get("accounts", ()):
            account = MerchantAccount(**dict(zip(_ACCOUNT_FIELDS, values, strict=True)))
            self._accounts[account.id] = Account(account=account)
            if owner != partition:
                self.elsewhere.add(account.id)
        for row in found.get("payouts", ()):
            payout = _payout(row)
            if payout.account_id in self._accounts:
                self._accounts[payout.account_id].payouts[payout.id] = payout
        for row in found.get("destinations", ()):
            known = PayoutDestination(**dict(zip(_DESTINATION_FIELDS, row, strict=True)))
            if known.account_id in self._accounts:
                self._accounts[known.account_id].destinations[known.id] = known
        self._read_versions = {key: account.account.version for key, account in self._accounts.items()}
        self._held = {ledger_account: int(held) for ledger_account, held in found.get("held", ())}
        self._approved = {id_: (operation, payload) for id_, operation, payload in found.get("approved", ())}
        self._follows = bool(found)
        self._changed: dict[str, MerchantAccount] = {}
        self._payouts_new: dict[str, Payout] = {}
        self._payouts_changed: dict[str, Payout] = {}
        self._destinations_new: dict[str, PayoutDestination] = {}
        self._destinations_changed: dict[str, PayoutDestination] = {}
        self._numbers: dict[str, str] = {}  # of new destinations

    def __contains__(self, key: str) -> bool:
        return key in self._accounts

    def decide(self, command: Command, now: int) -> AccountDecision | Rejection:
        """The decision on a command; nothing of it is kept yet."""
        if money_by_hand.needs_approval(command):
            approved = self._approved.get(command.idempotency_key)
            if command.scope != money_by_hand.SCOPE or approved != (command.operation, command.payload):
                return approval.NOT_APPROVED
        context = AccountContext(now=now, held=self._held, reference_rates=self._reference_rates, payouts=self._terms)
        return account_commands.decide(self._accounts.get(command.aggregate_key), command, context)

    def keep(self, decision: AccountDecision) -> None:
        """The workspace's own copies change, so that later commands of the batch see what this one did."""
        key = decision.account.id
        account = self._accounts.setdefault(key, Account(account=decision.account))
        account.account = self._changed[key] = decision.account
        if (payout := decision.payout) is not None:
            is_new = payout.id not in account.payouts or payout.id in self._payouts_new
            (self._payouts_new if is_new else self._payouts_changed)[payout.id] = payout
            account.payouts[payout.id] = payout
        if (destination := decision.destination) is not None:
            if decision.account_number is not None:
                self._numbers[destination.id] = decision.account_number
            is_new = destination.id in self._numbers
            (self._destinations_new if is_new else self._destinations_changed)[destination.id] = destination
            account.destinations[destination.id] = destination

    def posted(self, txns: Iterable[LedgerTxn]) -> None:
        """What any command of the batch posted counts for the accounts' commands behind it."""
        if not self._follows:
            return
        for txn in txns:
            for entry in txn.entries:
                held = self._held.get(entry.account_id, 0)
                self._held[entry.account_id] = held + entry.credit - entry.debit

    def writes(self) -> list[Statement]:
        """The rows that changed; nothing when no command was on an account."""
        new = [a for a in self._changed.values() if a.id not in self._read_versions]
        old = [a for a in self._changed.values() if a.id in self._read_versions]
        found: list[Statement] = []
        if new:
            found.append(statements.accounts_insert(new, self._partition))
        if old:
            found.append(statements.accounts_update(old, [self._read_versions[a.id] for a in old]))
        if self._payouts_new:
            found.append(statements.payouts_insert(list(self._payouts_new.values())))
        if self._payouts_changed:
            found.append(statements.payouts_update(list(self._payouts_changed.values())))
        if new_ones := list(self._destinations_new.values()):
            found.append(statements.destinations_insert(new_ones, [self._numbers[one.id] for one in new_ones]))
        if self._destinations_changed:
            found.append(statements.destinations_update(list(self._destinations_changed.values())))
        return found


def _is_name(text: str) -> bool:
    """Payloads are judged one by one later: what can be no name must not fail the query for all of them."""
    return bool(text) and text.isascii() and text.isprintable()


def _payout(row: tuple[Any, ...]) -> Payout:
    fields = dict(zip(_PAYOUT_FIELDS, row, strict=True))
    fields["metadata"] = msgspec.json.decode(row[_METADATA])
    return Payout(**fields)

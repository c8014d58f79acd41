"""The set-based reads and writes of merchants' accounts, in the order of columns in queries/payments/accounts.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dataflows.owner.batch import Statement
from schemas.payments.records import MerchantAccount, Payout, PayoutDestination
from sinks.postgres.arrays import Bigints, Count, OptionalTexts, Texts
from sinks.postgres.column_lists import packed
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.payments", "accounts.sql")
_json: Final = msgspec.json.Encoder()


def accounts_insert(accounts: Sequence[MerchantAccount], partition: int) -> Statement:
    """Accounts that did not exist."""
    return SQL["accounts_insert"], (
        partition,
        Texts([a.id for a in accounts]),
        Texts([a.merchant_id for a in accounts]),
        Texts([a.state for a in accounts]),
        OptionalTexts([a.frozen_reason for a in accounts]),
        Bigints([a.version for a in accounts]),
        Bigints([a.created_at for a in accounts]),
        Bigints([a.updated_at for a in accounts]),
    )


def accounts_update(accounts: Sequence[MerchantAccount], read_versions: Sequence[int]) -> Statement:
    """Accounts that were read at these versions; the statement fails when one is not at its version any more."""
    return SQL["accounts_update"], (
        Texts([a.id for a in accounts]),
        Bigints(read_versions),
        Texts([a.state for a in accounts]),
        OptionalTexts([a.frozen_reason for a in accounts]),
        Bigints([a.version for a in accounts]),
        Bigints([a.updated_at for a in accounts]),
        Count(len(accounts)),
    )


def payouts_insert(payouts: Sequence[Payout]) -> Statement:
    """Payouts that did not exist."""
    return SQL["payouts_insert"], (
        Texts([p.id for p in payouts]),
        Texts([p.account_id for p in payouts]),
        Texts([p.merchant_id for p in payouts]),
        Bigints([p.amount for p in payouts]),
        Texts([p.currency for p in payouts]),
        Texts([p.state for p in payouts]),
        Texts([p.destination for p in payouts]),
        OptionalTexts([p.failure_reason for p in payouts]),
        Texts([_json.encode(p.metadata).decode() for p in payouts]),
        Bigints([p.version for p in payouts]),
        Bigints([p.created_at for p in payouts]),
        Bigints([p.updated_at for p in payouts]),
    )


def payouts_update(payouts: Sequence[Payout]) -> Statement:
    """Payouts that a command or a fact of the bank changed."""
    return SQL["payouts_update"], (
        Texts([p.id for p in payouts]),
        Texts([p.state for p in payouts]),
        OptionalTexts([p.failure_reason for p in payouts]),
        Bigints([p.version for p in payouts]),
        Bigints([p.updated_at for p in payouts]),
        Count(len(payouts)),
    )


def destinations_insert(destinations: Sequence[PayoutDestination], numbers: Sequence[str]) -> Statement:
    """Destinations that did not exist, with the number of each."""
    return SQL["destinations_insert"], (Texts(numbers), *packed(PayoutDestination, "insert", destinations))


def destinations_update(destinations: Sequence[PayoutDestination]) -> Statement:
    """Destinations that were disabled, or may be used earlier."""
    columns = packed(PayoutDestination, "update", destinations)
    return SQL["destinations_update"], (*columns, Count(len(destinations)))

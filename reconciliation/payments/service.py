"""Payments as reconciliation sees them."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.payments.current_tables import (
    MerchantAccountCurrent,
    PaymentIntentCurrent,
    PayoutCurrent,
    PayoutDestinationCurrent,
)
from reconciliation.payments.ledger_chain import chain_violations
from reconciliation.payments.processor_book import ProcessorBooks
from reconciliation.payments.replayed_tables import AccountBalance
from reconciliation.payments.stores import STORES
from sinks.postgres.sql_files import queries

RECONCILED: Final = ReconciledService(
    aggregate_version=queries("reconciliation.payments", "aggregates.sql")["aggregate_version"],
    computed={"ledger_chain": chain_violations},
    outside={"19": ProcessorBooks},
    compared_stores={"18": STORES},
    exchanged_tables={"account_balance": AccountBalance},
    compared_tables={
        "payment_intent": PaymentIntentCurrent,
        "merchant_account": MerchantAccountCurrent,
        "payout": PayoutCurrent,
        "payout_destination": PayoutDestinationCurrent,
    },
)

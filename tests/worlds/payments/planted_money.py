"""What breaks the invariants that hold the ledger against fees, disputes and evidence: as ``planted_violations``."""

from __future__ import annotations

from tests.worlds.payments.planted_violations import BANK_ENTRY, REFUSED

FEES = (
    """insert into policy_version (kind, version, body, state, author) values ('fees', 1, '{{"effective_at":"""
    """ "2000-01-01T00:00:00Z", "default": {{"bps": {}}}, "merchants": {}}}', 'active', 'a')"""
)

#: invariant -> what breaks it
PLANTED_MONEY: dict[str, list[str]] = {
    "fees": ["update ledger_entry set credit = credit + 1 where starts_with(account_id, 'platform_fee_income:')"],
    "parties": [
        "update ledger_entry set account_id = 'merchant_available:m_other:' || currency"
        " where starts_with(account_id, 'merchant_available:')"
    ],
    "disputes": ["update dispute set funds = 'reinstated', state = 'won' where state = 'lost'"],
    "evidence": ["delete from settlement_line where starts_with(processor, 'bank:')"],
}

#: more ways
OTHER_MONEY: list[tuple[str, *tuple[str, ...]]] = [
    # other terms were in force; of one merchant with a fixed part
    ("fees", FEES.format(10, "{}")),
    ("fees", FEES.format(150, '{"m_1": {"bps": 150, "fixed": {"USD": 1, "EUR": 1, "JPY": 1}}}')),
    (
        "parties",
        "update ledger_entry set account_id = 'processor_receivable:other:' || currency"
        " where txn_id in (select txn_id from ledger_txn where kind = 'capture') and starts_with(account_id, 'processor_receivable:')",
    ),
    ("disputes", "delete from dispute where state = 'won'"),
    ("disputes", "update dispute set fee = fee + 1 where state = 'won'"),
    # the money is back at the platform, and the merchant never got it
    (
        "disputes",
        "delete from ledger_entry where txn_id in (select txn_id from ledger_txn where kind = 'dispute_reinstated')"
        " and split_part(account_id, ':', 1) in ('merchant_available', 'processor_receivable')",
    ),
    # an outcome of another amount; a payout received as more than the bank says; exchanges without a line, and without a posting
    ("evidence", "update settlement_line set gross = 2 * gross where starts_with(processor, 'bank:')"),
    (
        "evidence",
        BANK_ENTRY,
        "update settlement_line set posting = 'decided' where processor = 'bank:x'",
        "insert into ledger_txn values (8, 'payout_received:sim:po_9', 'payout_received', 'jr', '', 0, now(), now())",
        "insert into ledger_entry values (8, 0, 'cash:x:USD', 8, 0, 'USD', now()),"
        " (8, 1, 'payout_in_transit:sim:USD', 0, 8, 'USD', now())",
    ),
    ("evidence", "update ledger_txn set kind = 'settlement_exchanged' where kind = 'settled'"),
    (
        "evidence",
        f"{REFUSED} ('sim', 'ln_1/exchange', 'rpt', 1, 'exchange', 'USD', 7, 0, 7, 'EUR', 'exchanged', 7, 'ln_1', 'decided')",
    ),
]

"""What makes one store differ from the others: see ``test_check_invariants`` (18)."""

from __future__ import annotations

NOW = " settings mutations_sync = 2"
CLICKHOUSE_TAMPERED = {
    "a doubled event": "insert into events select * from events limit 1",
    "a doubled ledger line": "insert into ledger_lines select * from ledger_lines limit 1",
    "a lost event": "alter table events delete where seq = 2 and kafka_partition = 1" + NOW,
    "a changed amount": "alter table ledger_lines update debit = debit + 1 where debit > 0 and seq < 9" + NOW,
    "a lost version": "alter table payment_intents delete where seq = 2" + NOW,
    "a lost refund": "alter table refunds delete where version = 1" + NOW,
    "a lost payout": "alter table payouts delete where version = 1" + NOW,
    "a changed account": "alter table merchant_accounts update state = 'frozen' where version = 2" + NOW,
    "a changed dispute": "alter table disputes update amount = amount + 1 where version = 1" + NOW,
    "a changed attempt": "alter table processor_attempts update amount = 1 where seq < 9" + NOW,
}
POSTGRES_TAMPERED = {
    "refund": "delete from refund where id = (select min(id) from refund)",
    "refund_current": "update refund set state = 'canceled' where id = (select min(id) from refund where state = 'succeeded')",
    "dispute": "update dispute set amount = amount + 1 where id = (select min(id) from dispute)",
    "dispute_current": "update dispute set state = 'prevented' where id = (select min(id) from dispute)",
    "payout": "update payout set amount = amount + 1 where id = (select min(id) from payout)",
    "payout_current": "update payout set state = 'canceled' where state = 'pending'",
    "journal_entry": "delete from journal_entry where id = (select min(id) from journal_entry)",
}

"""What breaks each invariant of ``millrace check``, as SQL over a sound history: see ``test_check_invariants``."""

from __future__ import annotations

ENTRY = "ctid = (select min(ctid) from ledger_entry)"
ATTEMPT_COLUMNS = (
    "intent_id, attempt, kind, status, operation_id, processor, amount, currency, payment_method, parent_ref, final,"
    " provider_ref, error_code, created_at, updated_at"
)
CAPTURED = "(select operation_id from processor_attempt where status = 'captured' order by operation_id limit 1)"
SUCCEEDED = "(select id from payment_intent where state = 'succeeded' order by id limit 1)"

SETTLED = "(select operation_id from processor_attempt where settled_line is not null order by operation_id limit 1)"
REFUNDED = "(select intent_id from refund where state = 'succeeded' order by id limit 1)"
IN_FLIGHT = "(select account_id from account_balance where starts_with(account_id, 'refund_in_flight:') limit 1)"
EARLIER = "now() - interval '2 minutes'"
EVENT = (
    "insert into provider_event (processor, provider_event_id, event_type, body, state, received_at, next_at) values"
)
OLD_SUSPENSE = (
    "with t as (insert into ledger_txn values (8, 'old', 'x', 'pi_x', '', 0, now() - interval '8 days', now())),"
    " e as (insert into ledger_entry values (8, 0, 'recon_suspense:old:USD', 5, 0, 'USD', now() - interval '8 days'),"
    " (8, 1, 'cash:old:USD', 0, 5, 'USD', now() - interval '8 days'))"
    " insert into account_balance values ('recon_suspense:old:USD', 0, 'USD', 5, 0, 1), ('cash:old:USD', 0, 'USD', 0, 5, 1)"
)
AUDITED = "select audit_append('a', 'case.read', 'c', 'done', '{}') from generate_series(1, 3)"
REPAIR = (
    "insert into repair_case (id, kind, reference) values ('case_1', 'planted', 'x')",
    "insert into repair_proposal (id, case_id, template, entries, note, author, request_hash, preview, state, decided_by,"
    " decided_at, txn_id) values ('rp_1', 'case_1', 'entries', '[]', 'n', 'a', '', '[]', 'posted', 'b', now(), 1)",
)

CLOSING = (
    "insert into repair_case (id, kind, reference, state) values ('case_1', 'planted', 'x', 'resolved')",
    "insert into case_closing (id, case_id, reason, note, author, request_hash, four_eyes, state, decided_by, decided_at)"
    " values ('cc_1', 'case_1', 'test', 'n', 'a', '', true, 'closed', 'b', now())",
    """select audit_append('b', 'case.close', 'case_1', 'done', '{"closing": "cc_1"}')""",
)

MONEY = (
    "insert into money_proposal (id, operation, object, payload, author, request_hash, decided_by, decided_at, state, event_id)"
    " values ('mp_1', 'hold_reserve', 'm_1', '{{}}', 'a', '', '{}', now(), '{}', {})"
)
#: who may not have sent this
MISSENT = (
    ("", "true"),
    ("stranger", "true"),
    ("ingress", "starts_with(merchant_id, 'processor:')"),
    ("producer.erp", "starts_with(merchant_id, 'operator:')"),
    ("processor_worker", "starts_with(merchant_id, 'm_')"),
    ("worker.social_eraser", "starts_with(merchant_id, 'm_')"),
    ("parked", "starts_with(merchant_id, 'm_')"),
    ("repairs", "starts_with(merchant_id, 'processor:')"),
)

MONEY_APPROVED = "select audit_append('b', 'money.approve', 'mp_1', 'done', '{}')"

OUTCOME = (
    "insert into repair_case (id, kind, reference) values ('case_1', 'attempt_review', 'op_1')",
    "insert into attempt_outcome_proposal (id, case_id, operation_id, intent_id, attempt, processor, fact, note, author,"
    " request_hash, state, decided_by, decided_at) values ('ao_1', 'case_1', 'op_1', 'pi_1', 1, 'sim', '{}', 'n', 'a', '',"
    " 'approved', 'b', now())",
    "select audit_append('b', 'attempt.approve_outcome', 'ao_1', 'done', '{}')",
)

#: an attempt that is there, and what somebody said of it
ASSESSED = (
    "insert into risk_assessment select intent_id, attempt, '', '{}', 1, 1, '[]', now() from processor_attempt where"
    f" operation_id = {CAPTURED}"
)

LINE = (
    "insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net, net_currency,"
    " batch, class, posted_gross, matched, counterpart) values"
)
PAYOUT = (
    f"{LINE} ('sim', 'po_1', 'rpt', 1, 'payout', 'USD', -7, 0, -7, 'USD', 'b', 'announced', 7, null, null),"
    " ('sim', 'ln_1', 'rpt', 2, 'charge', 'USD', 5, 0, 5, 'USD', 'b', 'orphan', null, null, null)"
)
REFUSED = (
    "insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net, net_currency,"
    " class, posted_gross, part_of, posting) values"
)
BANK_ENTRY = (
    f"{LINE} ('bank:x', 'b', 's', 1, 'bank_credit', 'USD', 7, 0, 7, 'USD', null, 'matched', null, 'po_9', 'sim')"
)

LEASE = (
    "insert into limit_lease_settlement (lease_id, key_hash, policy_id, policy_version, granted, reported, assumed,"
    " released, reason, ended_at) values"
)
#: a durable counter that holds five, and an earlier state of it that holds nothing
COUNTER = (
    '{"policy_version":1,"counter":{"terms":{"algorithm":2,"capacity":9,"refill":9,"period":60,"slots":1,"tick_us":1,'
    '"strict":false},"debt":0,"at":7,"counts":{"0":5}},"base":{"terms":{"algorithm":2,"capacity":9,"refill":9,'
    '"period":60,"slots":1,"tick_us":1,"strict":false},"debt":0,"at":0,"counts":{}},"base_version":0,"base_at":0}'
)

#: invariant -> what breaks it
PLANTED: dict[str, list[str]] = {
    "21": [f"{LEASE} ('g.1', 'h', 'pl_a', 1, 8, 5, 1, 1, 'expired', now())"],
    "durable_quotas": [
        f"insert into quota_counter values ('qt_x', 'pl_x', 't', 1, 5, '{COUNTER}', 0, now(), now())",
        "insert into quota_tenant values ('qt_x', 't', 1, 0, now())",
        "insert into quota_charge values ('qt_x', 'a', 4, 7, 1, '{pl_x}', '{t}', null, null)",
    ],
    "1": [f"update ledger_entry set debit = debit + 1, credit = 0 where {ENTRY}"],
    "2": ["delete from ledger_entry where ctid = (select min(ctid) from ledger_entry)"],
    "3": ["insert into ledger_entry values (7, 0, 'c:USD', 5, 0, 'USD', now()), (7, 1, 'c:USD', 0, 5, 'USD', now())"],
    "4": ["update account_balance set debits = debits + 1 where ctid = (select min(ctid) from account_balance)"],
    "5": ["alter table ledger_entry disable trigger ledger_entry_immutable"],
    "ledger_chain": [f"update ledger_entry set account_id = 'x' || account_id where {ENTRY}"],
    "6": [f"update processor_attempt set amount = amount + 1 where operation_id = {CAPTURED}"],
    "refunds": ["update refund set state = 'succeeded', pending_reason = null, version = 2 where state = 'pending'"],
    "payouts": ["update payout set state = 'paid' where state = 'pending'"],
    "payouts_in_transit": ["update payout set amount = amount + 1 where state = 'pending'"],
    "aged_payouts": ["update repair_case set state = 'resolved' where kind = 'aged_payout'"],
    "aged_disputes": ["update dispute set state = 'won' where state = 'lost' and funds = 'withdrawn'"],
    "disputes_due": [
        "update dispute set state = 'needs_response', evidence_due_by = now() where state = 'lost' and funds = 'withdrawn'"
    ],
    "exchanges": ["update ledger_entry set account_id = 'fx_clearing:EUR' where account_id = 'platform_fee_income:EUR'"],
    "settled": [f"update processor_attempt set settled_line = null where operation_id = {SETTLED}"],
    "7": [f"update payment_intent set amount_received = amount_received - 1 where id = {SUCCEEDED}"],
    "ids": ["update refund set id = 're-' || id where ctid = (select min(ctid) from refund)"],
    "8": [f"update payment_intent set amount_refunded = amount_received + 1 where id = {SUCCEEDED}"],
    "9": ["drop index processor_attempt_one_charge"],
    "failovers": [f"update processor_attempt set route = 'routing 1: r; failover 1 after x' where operation_id = {CAPTURED}"],
    "10": ["update payment_intent set amount_capturable = amount_capturable + 1 where state = 'requires_capture'"],
    "11": [f"update payment_intent set version = version + 1 where id = {SUCCEEDED}"],
    "results": ["delete from idempotency where ctid = (select min(ctid) from idempotency)"],
    "metadata": ["delete from metadata_place where ctid = (select min(ctid) from metadata_place)"],
    "12": ["delete from attempt_dispatch where status = 'waiting'"],
    "14": ["update settlement_line set fee = fee + 1, net = net - 1"],
    "15": ["update settlement_line set fee = fee + 1"],
    "outbox": ["delete from outbox where seq = 2 and partition = 0"],
    "published": ["update partition_owner set published_seq = published_seq + 1 where partition = 4"],
    "13": [f"{EVENT} ('simulator', 'evt_1', 'x', '', 'stored', {EARLIER}, {EARLIER})"],
    "17": [f"update account_balance set debits = credits + 1 where account_id = {IN_FLIGHT}"],
    "16": ["update journal_entry set scope = 'ledger:repair' where ctid = (select min(ctid) from journal_entry)"],
    "senders": ["update partition_owner set signed_from = 5 where partition = 0"],
    "money_by_hand": ["update idempotency set sender = 'repairs' where operation = 'hold_reserve'"],
    "closings": [*CLOSING[:2]],
    "outcomes": [*OUTCOME[:2]],
    "aged": [OLD_SUSPENSE],
    "audit": [AUDITED, "alter table audit_log disable trigger user", "update audit_log set actor = 'x' where seq = 1"],
    "risk": [f"update payment_intent set state = 'requires_merchant_action' where id = {SUCCEEDED}"],
    "parked": ["insert into parked_aggregate values ('pi_x', 'commands', 0, 1, 'why', now())"],
}  # fmt: skip

#: more ways to break the same invariant: its id, and statements
OTHER_WAYS: list[tuple[str, *tuple[str, ...]]] = [
    ("risk", "insert into repair_case (id, kind, reference) values ('case_1', 'risk_review', 'pi_x')"),
    ("risk", ASSESSED.format("review")),
    ("risk", ASSESSED.format("block")),
    (
        "risk",
        ASSESSED.format("block"),
        f"update processor_attempt set status = 'blocked' where operation_id = {CAPTURED}",
    ),
    (
        "risk",
        "update processor_attempt set status = 'blocked', provider_ref = null where status = 'created'",
    ),
    ("3", f"update ledger_entry set effective_at = effective_at + interval '1 s' where {ENTRY}"),
    (
        "3",
        "alter table ledger_entry drop constraint ledger_entry_currency",
        f"update ledger_entry set currency = 'CHF' where {ENTRY}",
    ),
    (
        "3",
        "alter table ledger_entry drop constraint ledger_entry_one_sided",
        f"update ledger_entry set debit = 5, credit = 5 where {ENTRY}",
    ),
    ("3", "insert into ledger_txn values (9, 'ref', 'capture', 'pi_x', '', 0, now(), now())"),
    (
        "21",
        "update limit_lease_position set open_leases = 1, oldest_open_end = now() - interval '1 m' where partition = 1",
    ),
    ("4", "delete from account_balance where ctid = (select min(ctid) from account_balance)"),
    ("4", "insert into account_balance values ('ghost:USD', 0, 'USD', 0, 0, 0)"),
    ("5", "drop trigger ledger_txn_immutable on ledger_txn"),
    ("5", "grant update on ledger_entry to millrace_owner"),
    ("5", "grant update (debit) on ledger_entry to millrace_ingress"),
    ("5", "alter table ledger_txn owner to millrace_owner"),
    (
        "5",
        "create function harmless() returns trigger language plpgsql as 'begin return null; end'",
        "drop trigger ledger_txn_immutable on ledger_txn",
        "create trigger ledger_txn_immutable before update on ledger_txn execute function harmless()",
    ),
    ("ledger_chain", "delete from ledger_entry where txn_id = (select max(txn_id) from ledger_entry)"),
    ("ledger_chain", "delete from ledger_chain where link = 1 and partition = 2"),
    (
        "ledger_chain",
        "update ledger_txn set reference = reference || 'x' where txn_id = (select min(txn_id) from ledger_txn)",
    ),
    (
        "ledger_chain",
        "insert into ledger_txn values (1, 'ref', 'capture', 'pi_x', '', 0, now(), now())",
        "insert into ledger_entry values (1, 0, 'a:USD', 5, 0, 'USD', now()), (1, 1, 'b:USD', 0, 5, 'USD', now())",
    ),
    ("6", f"update processor_attempt set status = 'failed' where operation_id = {CAPTURED}"),
    (
        "6",
        "update ledger_txn set reference = 'other:capture' where txn_id = (select min(txn_id) from ledger_txn where kind = 'capture')",
    ),
    ("7", f"update payment_intent set state = 'canceled' where id = {SUCCEEDED}"),
    ("7", f"delete from payment_intent where id = {SUCCEEDED}"),
    ("7", f"update payment_intent set amount_refunded = amount_refunded - 1 where id = {REFUNDED}"),
    ("7", "update payment_intent set amount_disputed = amount_disputed + 1 where amount_disputed > 0"),
    ("7", f"update payment_intent set amount_pending = amount_pending + 1 where id = {REFUNDED}"),
    ("7", "update dispute set state = 'prevented' where state = 'lost'"),
    ("refunds", "update refund set amount = amount - 1, from_pending = 0 where state = 'succeeded'"),
    ("refunds", "delete from refund where state = 'pending'"),
    ("refunds", f"update processor_attempt set attempt = 77 where kind = 'refund' and intent_id = {REFUNDED}"),
    ("6", "update processor_attempt set status = 'refunded' where kind = 'refund' and status = 'created'"),
    ("6", f"update processor_attempt set status = 'failed' where kind = 'refund' and intent_id = {REFUNDED}"),
    ("payouts", "delete from payout where state = 'failed'"),
    ("payouts", "update payout set amount = amount + 1 where state = 'paid'"),
    (
        "payouts",
        "insert into ledger_txn select 9, (select id from payout where state = 'pending') || ':paid', 'payout_paid',"
        " 'ma_x', '', 0, now(), now(); insert into ledger_entry select 9, 0, 'cash:b:' || currency, amount, 0, currency, now()"
        " from payout where state = 'pending'",
    ),
    (
        "payouts_in_transit",
        "delete from ledger_entry where starts_with(account_id, 'merchant_payout_in_transit:') and debit > 0",
    ),
    (
        "exchanges",
        "update ledger_entry set account_id = 'merchant_pending:m:' || currency where account_id ~ '^merchant_available:.*:(GBP|KRW)'",
    ),
    ("17", "update account_balance set debits = credits + 1 where starts_with(account_id, 'merchant_reserved:')"),
    ("11", "update merchant_account set version = version + 1"),
    ("settled", "update processor_attempt set settled_line = 'line' where status = 'declined'"),
    ("settled", "delete from journal_entry"),
    ("8", f"update refund set amount = 1000000, from_pending = 0 where intent_id = {REFUNDED}"),
    (
        "8",
        "update refund set created_at = now() where id in (select r.id from refund r join dispute d using (intent_id))",
        "update dispute set amount = 1000000 where state = 'lost'",
    ),
    ("10", "update dispute set funds = 'withdrawn' where state = 'won'"),
    ("10", "update refund set amount = amount + 1 where state = 'pending'"),
    ("11", "delete from journal_entry"),
    (
        "12",
        f"update processor_attempt set status = 'manual_review', updated_at = {EARLIER} where status = 'unknown'",
        f"update attempt_dispatch set updated_at = {EARLIER}",
    ),
    ("14", "update account_balance set debits = debits + 1 where starts_with(account_id, 'processor_receivable:')"),
    ("14", "delete from settlement_line"),
    # fees of a further line and of a refund, which are not the ones that were booked
    ("14", "update settlement_line set fee = fee + 1, net = net - 1 where finding = 'duplicate'"),
    ("14", "update settlement_line set fee = fee + 1, net = net - 1 where gross < 0"),
    ("14", "update ledger_txn set kind = 'another' where kind = 'settlement_fee'"),
    (
        "14",
        PAYOUT,
        "insert into ledger_txn values (8, 'payout:sim:po_1', 'payout_announced', 'jr', '', 0, now(), now())",
    ),
    (
        "14",
        "insert into settlement_report (processor, report_id, sha256, format, state, is_complete_history, youngest_at)"
        " values ('sim', 'rpt', '', 'simulator', 'taken_in', true, now())",
    ),
    (
        "14",
        "insert into settlement_report (processor, report_id, sha256, format, state, is_complete_history, oldest_at, youngest_at)"
        " values ('sim', 'file_1', '', 'stripe', 'taken_in', false, '2000-01-01', now())",
    ),
    ("15", "delete from settlement_line"),
    ("15", f"update processor_attempt set settled_line = 'another' where operation_id = {SETTLED}"),
    (
        "15",
        "create temporary table twice as select * from settlement_line limit 1",
        "update twice set line_id = 'again'",
        "insert into settlement_line select * from twice",
    ),
    ("15", PAYOUT),
    ("15", "update settlement_line set posting = 'due', finding = null where finding = 'matched'"),
    ("15", BANK_ENTRY),
    # an exchange that its owner refused, and the money of a line of no kind
    (
        "15",
        f"{REFUSED} ('sim', 'ln_1/exchange', 'rpt', 1, 'exchange', 'USD', 7, 0, 7, 'EUR', 'exchanged', 7, 'ln_1', 'refused')",
    ),
    ("15", f"{REFUSED} ('sim', 'ln_1', 'rpt', 1, 'other', 'USD', 7, 0, 7, 'USD', 'unknown_line', 7, null, 'refused')"),
    # a report that was cut off excuses what it held, and nothing else of its processor
    (
        "15",
        PAYOUT,
        "insert into settlement_discrepancy (processor, subject, class, reference, amount)"
        " values ('sim', 'rpt_cut', 'truncated_report', 'rpt_cut', 0)",
    ),
    (
        "15",
        PAYOUT,
        BANK_ENTRY.replace("'po_9'", "'po_1'"),
        BANK_ENTRY.replace("'b', 's'", "'c', 's'").replace("'po_9'", "'po_1'"),
    ),
    # a case about something else of the same processor says nothing of old money
    (
        "aged",
        OLD_SUSPENSE,
        "insert into repair_case (id, kind, reference, processor) values ('case_1', 'attempt_review', 'op_x', 'old')",
    ),
    (
        "13",
        f"{EVENT} ('simulator', 'evt_1', 'x', '', 'parked', now() - interval '1 day', {EARLIER})",
    ),
    ("13", f"{EVENT} ('simulator', 'evt_1', 'x', '', 'applied', now(), now())"),
    ("17", "update account_balance set currency = 'CHF' where ctid = (select min(ctid) from account_balance)"),
    ("16", *REPAIR),
    ("16", "insert into journal_entry values ('jr_x', 'repair:rp_1', 'repair', null, 'ledger:x', 0, now())"),
    (
        "16",
        "alter table repair_proposal drop constraint repair_four_eyes",
        REPAIR[0],
        REPAIR[1].replace("'posted', 'b', now(), 1", "'approved', 'a', now(), null"),
        "select audit_append('a', 'repair.approve', 'rp_1', 'done', '{}')",
    ),
    ("16", REPAIR[0], REPAIR[1].replace("'posted', 'b', now(), 1", "'approved', 'b', now(), null")),
    ("money_by_hand", MONEY.format("b", "done", "'evt_x'"), MONEY_APPROVED),
    ("money_by_hand", MONEY.format("b", "approved", "null")),
    (
        "money_by_hand",
        "alter table money_proposal drop constraint money_four_eyes",
        MONEY.format("a", "approved", "null"),
    ),
    (
        "money_by_hand",
        "update idempotency set sender = 'repairs', merchant_id = 'ledger:repair' where operation = 'record_payout_outcome'",
    ),
    ("closings", *CLOSING, "update repair_case set state = 'open' where id = 'case_1'"),
    ("closings", *CLOSING, "update repair_case set kind = 'risk_review' where id = 'case_1'"),
    (
        "closings",
        "alter table case_closing drop constraint case_closing_four_eyes",
        CLOSING[0],
        CLOSING[1].replace("'a'", "'b'"),
        CLOSING[2],
    ),
    ("outcomes", *OUTCOME, "update attempt_outcome_proposal set state = 'recorded'"),
    (
        "outcomes",
        "alter table attempt_outcome_proposal drop constraint attempt_outcome_four_eyes",
        OUTCOME[0],
        OUTCOME[1].replace("'b'", "'a'"),
        OUTCOME[2].replace("'b'", "'a'"),
    ),
    ("audit", "grant update (state) on attempt_outcome_proposal to millrace_worker"),
    ("audit", "grant insert on case_closing to millrace_ingress"),
    ("audit", "drop trigger case_closing_kept on case_closing"),
    ("audit", AUDITED, "alter table audit_log disable trigger user", "delete from audit_log where seq = 3"),
    ("audit", AUDITED, "alter table audit_log disable trigger user", "delete from audit_log where seq = 1"),
    ("audit", "grant insert on audit_log to millrace_worker"),
    ("audit", "grant update (state) on repair_proposal to millrace_operator"),
    ("audit", "drop trigger audit_head_kept on audit_head"),
    ("8", f"update payment_intent set amount_received = amount + 1 where id = {SUCCEEDED}"),
    (
        "9",
        "drop index processor_attempt_one_charge",
        "create temporary table second as select * from processor_attempt where operation_id = " + CAPTURED,
        "update second set attempt = 99, kind = 'purchase', operation_id = 'op_second'",
        "alter table second drop column live_charge",
        f"insert into processor_attempt ({ATTEMPT_COLUMNS}) select {ATTEMPT_COLUMNS} from second",
        "update processor_attempt set kind = 'purchase' where intent_id = (select intent_id from second)",
    ),
    ("9", f"update processor_attempt set kind = 'purchase', final = false where operation_id = {CAPTURED}"),
    *(("senders", f"update idempotency set sender = '{sender}' where {whose}") for sender, whose in MISSENT),
    (
        "senders",
        "update idempotency set sender = 'producer.erp', merchant_id = 'm_1' where operation = 'freeze_account'",
    ),
    ("outbox", "delete from outbox where seq = 1"),
    ("outbox", "update partition_owner set published_seq = 99999 where partition = 0"),
    ("11", "update outbox set version = version + 1 where seq = 1 and partition = 0"),
    ("results", "update outbox set event_id = 'evt_other' where seq = 1 and partition = 0"),
    (
        "results",
        "update idempotency set response = decode('01', 'hex') where status = 'committed'",
        "update outbox set seq = seq + 1000",
    ),
    ("results", "update idempotency set aggregate_key = 'pi_other' where ctid = (select min(ctid) from idempotency)"),
    ("metadata", f"update payment_intent set metadata = '{{}}' where id = {SUCCEEDED}"),
    ("12", "update attempt_dispatch set amount = amount + 1 where ctid = (select min(ctid) from attempt_dispatch)"),
    ("12", "update attempt_dispatch set status = 'done' where status = 'waiting'"),
]

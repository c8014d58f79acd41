"""What breaks each invariant of usage, invoices and support, over a history that has some of all of it."""

from __future__ import annotations

from typing import Final

PLANTED: Final = {
    "tenancy_stores_counted": "update tenant_store set tenants = tenants + 1 where store = 'databases'",
    "tenancy_usage_places": "delete from usage_event e using usage_counted c where (e.partition, e.seq) = (c.partition, c.last_seq)",
    "tenancy_writes_metered": "delete from usage_event where source = 'urn:millrace:resources'",
    "tenancy_billing_periods": "update billing_run r set period_from = period_from - interval '1 day'"
    " where number = (select max(number) from billing_run o where o.tenant_id = r.tenant_id)",
    "tenancy_invoices_recomputable": "update tenant_invoice set document = document || ' '",
    "tenancy_invoice_cuts": "update tenant_invoice set cut = array[0] where ordinal > 1",
    "tenancy_late_usage_billed": "update billing_run set period_from = period_from - interval '380 days',"
    " period_to = period_to - interval '380 days'; update usage_event set occurred_at = occurred_at - interval '380 days',"
    " seq = seq + 1000000 where dimension = 'tokens'",
    "tenancy_void_credit": "update tenant_invoice set returned = '{1}' where ordinal > 1",
    "tenancy_invoices_paid": "insert into payment_intent (id, merchant_id, amount, currency, state, version, capture_method,"
    " processor, amount_capturable, amount_received, amount_refunded, amount_disputed, latest_attempt, metadata, partition,"
    " created_at, updated_at, reference) select 'pi_planted', 'm_millrace_billing', 1 + (convert_from(document, 'UTF8')::jsonb"
    "->>'total')::bigint, 'USD', 'succeeded', 1, 'automatic', 'p', 0, 1, 0, 0, 1, '{}', 0, now(), now(), invoice_id"
    " from tenant_invoice limit 1",
    "tenancy_support_audited": "delete from tenant_audit where seq = 1",
    "tenancy_audit_chained": "update tenant_audit set object = 'rs_other' where seq = 1",
    "tenancy_support_grants": "update support_grant set duration_s = 20000 where asked_duration_s is null and not break_glass",
    "tenancy_glass_reviewed": 'update support_grant set break_glass = true, not_before = null, approvers = \'["a", "b"]\', duration_s = 60,'
    " expires_at = now() - interval '25 hours'",
    "tenancy_apart": "insert into isolation_violation (place, probe, evidence) values (9, 'planted', 'a row of another')",
    "tenancy_usage_stores": "update usage_event set subject = 'another' where dimension = 'tokens'",
    "tenancy_conflicts_contradict": "update usage_conflict set quantity = 1 where event_id = 'e0'",
}
PLANTED_COSTS: Final = {
    "tenancy_costs": "insert into tenant_cost_slice (seq, tenant_id, source, calls, database_us) select last_seq + 1, 'tn_nobody',"
    " 'ingress-0', 1, 1 from tenant_feed where feed = 'cost'; update tenant_feed set last_seq = last_seq + 1 where feed = 'cost'",
    "tenancy_evidence": "update tenant_feed set last_seq = last_seq + 1 where feed = 'evidence'",
}
_SLICE = (
    "insert into tenant_cost_slice (seq, tenant_id, source, calls, database_us, commands, clickhouse_us)"
    " select (select last_seq from tenant_feed where feed = 'cost') + {place}, tenant_id, 'owner', {calls}, 0, 1, {clickhouse_us} from tenant limit 1"
)
_CLOSED = "update isolation_safe_mode set is_on = true, since = now(), probe = 'planted', evidence = 'a row of another'"
#: further ways to break some of them, with the reason that is told
OTHER_WAYS: Final = (
    ("tenancy_costs", "it is of more than one kind", _SLICE.format(place=1, calls=1, clickhouse_us=0)),
    ("tenancy_costs", "it is of more than one kind", _SLICE.format(place=1, calls=0, clickhouse_us=1)),
    ("tenancy_costs", "a place is missing", _SLICE.format(place=1, calls=0, clickhouse_us=0)),
    ("tenancy_costs", "a place is missing", _SLICE.format(place=2, calls=0, clickhouse_us=0)),
    ("tenancy_evidence", "no audit row with a note", "insert into isolation_violation (place, probe, evidence, resolved_at,"
     " resolved_by, note) values (1, 'planted', 'x', now(), 's_ann', 'looked at')"),
    ("tenancy_evidence", "without evidence", "insert into audit_log values (0, now(), 'isolation_monitor', 'r', 'isolation.safe_mode',"
     " 'planted', 'done', '{\"evidence\": \"a row of another\"}', '', '')"),
    ("tenancy_evidence", "safe mode is not", _CLOSED),
    ("tenancy_evidence", "safe mode is not", "insert into repair_case (id, kind, reference, evidence)"
     " values ('case_planted', 'isolation_safe_mode', 'tenancy', '{}')"),
    ("tenancy_support_audited", "it names no grant", "update tenant_audit set result = 'refused', grant_id = 'sg_nobody'"),
    ("tenancy_support_audited", "it names no grant", "update tenant_audit set result = 'refused', actor = 's_nobody'"),
    ("tenancy_support_audited", "the glass was broken", "update support_grant set break_glass = true, not_before = null,"
     " approvers = '[\"a\", \"b\"]', duration_s = 60"),
)  # fmt: skip
#: identity, statement, and what is told of it
WAYS: Final = (
    *((identity, statement, "") for identity, statement in (PLANTED | PLANTED_COSTS).items()),
    *((identity, statement, told) for identity, told, statement in OTHER_WAYS),
)
#: the same over tenants and their rows alone
BY_SQL: Final = {
    "tenancy_quotas_counted": "update quota_usage set used = used + 1",
    "tenancy_rows_at_heads": "delete from tenancy_pool.resource",
    "tenancy_gates": "update tenancy.gate set generation = generation + 1",
    "tenancy_keys": "update tenant_key set state = 'decrypt_only' where state = 'active'",
    "tenancy_deleted_is_empty": "update tenant set state = 'deleted', version = version + 1 where state = 'active'",
    "tenancy_moves": "update tenant_migration set fenced = true",
    "tenancy_fences_end": "update tenant_migration set fenced = true, fence_until = 1",
    "tenancy_sealed": "update tenancy_pool.resource set payload = '{\"mark\": 1}' where not deleted",
    "tenancy_shreds_acknowledged": "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1, shred_seq = 7000;"
    " insert into key_holder values ('kh_x', 'millrace_ingress', '0', now(), now() + interval '1 minute', 6999)",
}
#: further ways to be sealed so that a shred may not end it: for another purpose, under a key that the tenant never had
NOT_SEALED: Final = (
    "update tenancy_pool.resource set payload = set_byte(payload, 0, 2) where not deleted",
    "update tenancy_pool.resource set payload = set_byte(payload, 7, 9) where not deleted",
    "update tenancy_pool.resource set payload = '{}' where not deleted",
)
#: by way of a view that shows no tenant; the other one stays, and is no gap
COPIES: Final = """create view all_rows as select payload from tenancy_pool.resource;
create materialized view everything as select * from all_rows;
create materialized view harmless as select version from access_denied_version"""

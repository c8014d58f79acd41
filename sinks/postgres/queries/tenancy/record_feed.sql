-- What the sink of ClickHouse reads of records that are kept in places without a gap.

-- name: record_feed_ends
-- Whether there is more: of costs, of evidence, of the audit log. Primary keys; one row of the last.
select case feed when 'cost' then 0 else 1 end, last_seq from tenant_feed
union all
select 2, seq from audit_head;

-- name: cost_rows
-- Slices of what tenants cost, in order. Index tenant_cost_slice_place.
select 0, seq, tenant_id, (extract(epoch from ended_at) * 1000000)::bigint, source, calls, database_us, commands, owner_us,
       bytes_stored, clickhouse_us
from tenant_cost_slice where seq > %(after)s and seq <= %(until)s order by seq limit %(limit)s;

-- name: evidence_rows
-- What the isolation monitor found, in order. Index isolation_violation_place.
select 1, place, number, (extract(epoch from seen_at) * 1000000)::bigint, probe, evidence
from isolation_violation where place > %(after)s and place <= %(until)s order by place limit %(limit)s;

-- name: audit_rows
-- The audit log without details and hashes, in order. Primary key.
select 2, seq, (extract(epoch from at) * 1000000)::bigint, actor, db_role, action, object, outcome
from audit_log where seq > %(after)s and seq <= %(until)s order by seq limit %(limit)s;

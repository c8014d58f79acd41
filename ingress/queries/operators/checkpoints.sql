-- GET /v1/recovery_checkpoints: newest first, after a place in that order. Served by recovery_checkpoint_newest.
select name, scenario, operation_id, aggregate_key, last_durable_version, projection_checkpoint, retry_policy,
       reconciliation_status, owner, (extract(epoch from created_at) * 1000000)::bigint as created_at
from recovery_checkpoint
where (created_at, name) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, name desc
limit %(limit)s

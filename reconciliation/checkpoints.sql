-- Recovery checkpoints.

-- name: checkpoint_insert
-- `millrace replay` and the API: writes down a place to recover from. Rows are never changed but for their status.
insert into recovery_checkpoint (name, scenario, operation_id, aggregate_key, last_durable_version, projection_checkpoint,
                                 retry_policy, reconciliation_status, owner)
values (%(name)s, %(scenario)s, %(operation_id)s, %(aggregate_key)s, %(last_durable_version)s,
        %(projection_checkpoint)s::jsonb, %(retry_policy)s::jsonb, %(reconciliation_status)s, %(owner)s);

-- name: checkpoints_page
-- CLI and GET /v1/recovery_checkpoints, newest first. Index recovery_checkpoint_newest, backwards.
select name, scenario, operation_id, aggregate_key, last_durable_version, projection_checkpoint, retry_policy,
       reconciliation_status, owner, created_at
from recovery_checkpoint
where %(created_at)s::timestamptz is null or (created_at, name) < (%(created_at)s::timestamptz, %(name)s::text)
order by created_at desc, name desc limit %(limit)s;

-- name: checkpoint_read
-- Primary key.
select name, scenario, operation_id, aggregate_key, last_durable_version, projection_checkpoint, retry_policy,
       reconciliation_status, owner, created_at
from recovery_checkpoint where name = %(name)s;

-- name: database_time
-- By the clock that dates checkpoints.
select clock_timestamp();

-- name: checkpoints_judge
-- A whole `millrace check`, which began at a time: its word on each checkpoint before that is not proved clean yet.
update recovery_checkpoint set reconciliation_status = %(status)s
where reconciliation_status not in ('clean', %(status)s) and created_at < %(begun_at)s
returning name;

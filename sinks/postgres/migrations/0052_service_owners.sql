-- Several services on one spine: a stored result names the topic that its place is in, and the owners of a service
-- write the tables of that service only.

alter table idempotency add column topic text collate "C" not null default 'commands.payments.v1';
update idempotency set topic = 'commands.limiter.v1'
where operation in ('publish_policy', 'consume_quota', 'refund_quota');

-- what the runtime of every owner reads and writes, whatever the service
grant select, insert, update on partition_owner to millrace_limiter_owner;
grant select, insert on idempotency, outbox, dead_letter, parked_aggregate to millrace_limiter_owner;
grant update (published) on dead_letter to millrace_limiter_owner;

grant select, insert on policy, limit_policy_version to millrace_limiter_owner;
grant update (scope, algorithm, capacity, refill_rate, version, active_version, body, updated_at) on policy to millrace_limiter_owner;
grant select, insert, delete on policy_snapshot to millrace_limiter_owner;
grant select on limiter_shard_map to millrace_limiter_owner;
grant select, insert, update on quota_tenant to millrace_limiter_owner;
grant select, insert, update, delete on quota_counter, quota_charge to millrace_limiter_owner;

revoke insert, update on policy, limit_policy_version, quota_tenant from millrace_owner;
revoke update (scope, algorithm, capacity, refill_rate, version, active_version, body, updated_at) on policy from millrace_owner;
revoke insert, update, delete on policy_snapshot, quota_counter, quota_charge from millrace_owner;

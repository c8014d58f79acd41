-- Durable quotas: counted by the owner of their tenant's partition, so that they survive the loss of the counter store.

create table quota_tenant (
    aggregate_key text collate "C" primary key,      -- qt_...: all durable quotas of one tenant
    tenant        text collate "C" not null,
    version       bigint not null check (version > 0),
    partition     integer not null,
    updated_at    timestamptz not null
) with (fillfactor = 70);

create table quota_counter (
    aggregate_key  text collate "C" not null,
    policy_id      text collate "C" not null,
    counted_by     text collate "C" not null,        -- the values of the key that it is kept by
    policy_version bigint not null,
    used           bigint not null,                  -- when it was last charged
    body           text not null,                    -- its exact state, and an earlier one that charges lead from
    base_version   bigint not null,                  -- of the tenant's quotas at that earlier state
    expires_at     timestamptz not null,             -- from then on it holds nothing
    updated_at     timestamptz not null,
    primary key (aggregate_key, policy_id, counted_by)
) with (fillfactor = 70);
create index quota_counter_expired on quota_counter (expires_at);

-- What was consumed under which identity. Whether an identity was decided is in idempotency, for ever; this is what a
-- refund gives back and what the counters are checked against, and it is pruned.
create table quota_charge (
    aggregate_key    text collate "C" not null,
    identity         text collate "C" not null,
    cost             bigint not null check (cost >= 0),
    charged_at       bigint not null,                -- microseconds since the epoch, by the owner's clock
    version          bigint not null,                -- of the tenant's quotas with this charge
    policy_ids       text[] not null,
    counted_by       text[] not null,                -- of each of the policies
    refunded_version bigint,
    refunded_at      bigint,
    primary key (aggregate_key, identity),
    check (cardinality(policy_ids) = cardinality(counted_by)),
    check ((refunded_version is null) = (refunded_at is null))
);
create index quota_charge_age on quota_charge (charged_at);

grant select, insert, update on quota_tenant to millrace_owner;
grant select, insert, update, delete on quota_counter, quota_charge to millrace_owner;
grant select on quota_counter to millrace_ingress;
grant select on quota_tenant, quota_counter, quota_charge to millrace_operator, millrace_reader;

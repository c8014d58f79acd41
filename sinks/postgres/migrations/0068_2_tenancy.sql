-- The multi-tenant platform: tenants, where their data is, their keys, what they use, and the head of each resource.
-- This is the truth; rows of resources lie in the stores that placements name.

select tenancy.make_store('tenancy_pool');

create table tenant (
    tenant_id      text collate "C" primary key,
    partition      integer not null,
    name           text not null,
    tier           text collate "C" not null check (tier in ('standard', 'enterprise')),
    state          text collate "C" not null check (state in ('provisioning', 'active', 'suspended', 'offboarding', 'exported',
                                                              'deleting', 'deleted')),
    suspension     text collate "C" check (suspension in ('read_only', 'blocked')),
    reason         text,
    timezone       text not null,
    home_currency  text collate "C" not null,
    quotas         jsonb not null,               -- {dimension: limit as a text; "" = none}
    prices         jsonb not null,               -- {dimension: decimal text}
    placement_id   text collate "C" not null,
    generation     bigint not null check (generation > 0),
    key_ref        text collate "C" not null,
    policy_version bigint not null check (policy_version > 0),
    version        bigint not null check (version > 0),
    certificate_id text collate "C",
    created_at     bigint not null,              -- microseconds since the epoch, as all times here
    updated_at     bigint not null,
    check ((state = 'suspended') = (suspension is not null))
);
create index tenant_newest on tenant (created_at, tenant_id);
create index tenant_at_work on tenant (state) where state in ('provisioning', 'deleting');

create table placement (
    placement_id      text collate "C" primary key,
    region            text not null,
    mode              text collate "C" not null check (mode in ('pooled', 'partitioned', 'dedicated')),
    shard_or_database text collate "C" not null, -- the schema; of a dedicated one, the database's name ends with it
    state             text collate "C" not null check (state in ('provisioning', 'active', 'retired')),
    tenant_id         text collate "C"           -- whose own it is; null when many share it
);

create table tenant_key (
    tenant_id    text collate "C" not null,
    key_version  bigint not null check (key_version > 0),
    root_key_id  text collate "C" not null,
    wrapped      bytea,                          -- null once destroyed
    state        text collate "C" not null check (state in ('active', 'decrypt_only', 'destroyed')),
    created_at   bigint not null,
    destroyed_at bigint,
    certificate_id text collate "C",
    primary key (tenant_id, key_version),
    check ((state = 'destroyed') = (wrapped is null))
);
create unique index tenant_key_one_active on tenant_key (tenant_id) where state = 'active';

create table quota_usage (
    tenant_id text collate "C" not null,
    dimension text collate "C" not null,
    used      bigint not null check (used >= 0),
    primary key (tenant_id, dimension)
);

create table resource_head (
    tenant_id   text collate "C" not null,
    resource_id text collate "C" not null,
    version     bigint not null check (version > 0),
    deleted     boolean not null,
    size        bigint not null,
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (tenant_id, resource_id)
);
create index resource_head_live on resource_head (tenant_id, created_at, resource_id) where not deleted;

-- Row images on their way to stores that the owner's transaction does not reach: applied in any order, then removed.
create table resource_feed (
    placement_id text collate "C" not null,
    seq          bigint generated always as identity,
    tenant_id    text collate "C" not null,
    resource_id  text collate "C" not null,
    version      bigint not null,
    payload      bytea not null,
    deleted      boolean not null,
    primary key (placement_id, seq)
);
create index resource_feed_of_resource on resource_feed (tenant_id, resource_id, placement_id, version);

grant select, insert, update on partition_owner to millrace_tenancy_owner;
grant select, insert on idempotency, outbox, dead_letter, parked_aggregate to millrace_tenancy_owner;
grant update (published) on dead_letter to millrace_tenancy_owner;
grant select, insert, update on tenant, placement, tenant_key, quota_usage, resource_head, tenancy.gate to millrace_tenancy_owner;
grant insert on resource_feed to millrace_tenancy_owner;
grant select on tenant, placement, tenant_key, quota_usage, resource_head, resource_feed to millrace_ingress, millrace_operator;
grant select on tenancy.gate to millrace_operator;
grant select on tenant, placement, quota_usage, resource_head to millrace_reader;
grant select on tenant, placement, tenant_key, resource_head, resource_feed, quota_usage, tenancy.gate to millrace_tenancy_mover;
grant update on tenant, placement, tenant_key, tenancy.gate to millrace_tenancy_mover;
grant delete on resource_feed, resource_head, quota_usage, tenancy.gate to millrace_tenancy_mover;

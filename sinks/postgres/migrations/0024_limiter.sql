-- The rate limiter: policies with their versions, signed snapshots for gateways, totals of keys from the decision stream.

create table policy (
    policy_id      text collate "C" primary key,
    publisher      text collate "C" not null,        -- who may publish the next version
    scope          jsonb not null,                   -- {tenant, user, route}: which keys it is for
    algorithm      text collate "C" not null,
    capacity       bigint not null check (capacity > 0),
    refill_rate    bigint check (refill_rate > 0),
    version        bigint not null check (version > 0),
    active_version bigint not null,
    body           text not null,                    -- canonical JSON: all of the version in force
    partition      integer not null,
    created_at     timestamptz not null,
    updated_at     timestamptz not null
);
create index policy_of_scope on policy (scope, active_version);
create index policy_of_publisher on policy (publisher, created_at, policy_id);  -- lists, newest first

create table limit_policy_version (
    policy_id    text collate "C" not null,
    version      bigint not null,
    body         text not null,
    publisher    text collate "C" not null,
    published_at timestamptz not null,
    primary key (policy_id, version)
);

-- What gateways decide by: canonical JSON with a detached signature. A revision is renewed before it expires.
create table policy_snapshot (
    revision  bigint not null,
    issued_at bigint not null,                       -- seconds since the epoch
    digest    text collate "C" not null,             -- SHA-256 of the document, hex
    document  bytea not null,
    primary key (revision, issued_at)
);

-- Totals of keys, made of the decision stream: exactly once, by the position that moves in the same transaction.
create table limit_usage (
    limit_key      text collate "C" primary key,     -- tenant:user:route
    policy_id      text collate "C" not null,
    policy_version bigint not null,
    allowed        bigint not null,
    denied         bigint not null,
    allowed_cost   bigint not null,
    as_of          timestamptz not null              -- of the newest decision in it
) with (fillfactor = 70);
create table limit_usage_position (
    partition   integer primary key,
    next_offset bigint not null
);
create table limit_usage_source (
    source      text collate "C",                    -- one process of a gateway
    partition   integer,
    next_number bigint not null,                     -- its decisions before this one are counted
    primary key (source, partition)
);
insert into limit_usage_position select n, 0 from generate_series(0, 3) n;

grant select, insert on policy, limit_policy_version to millrace_owner;
grant update (scope, algorithm, capacity, refill_rate, version, active_version, body, updated_at) on policy to millrace_owner;
grant select, insert, delete on policy_snapshot to millrace_owner;
grant select on policy, limit_policy_version, policy_snapshot, limit_usage to millrace_ingress, millrace_operator, millrace_reader;
grant select, insert, update on limit_usage to millrace_worker;
grant select, update on limit_usage_position to millrace_worker;
grant select, insert, update on limit_usage_source to millrace_worker;
grant select on limit_usage_position, limit_usage_source to millrace_operator, millrace_reader;

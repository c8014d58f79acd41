-- Identities that several gateways charged out of leases: the later ones are given back, once.

create table limit_lease_refund (
    lease_id       text collate "C" not null,        -- that was charged later
    identity       bigint not null,                  -- 64 bits of what the request was known by; the identity is not here
    key_hash       text collate "C" not null,        -- of the bucket
    limit_key      bigint not null,                  -- hash of tenant:user:route; 0 where a row of another bucket stands for it
    cost           bigint not null check (cost > 0),
    charged_at     timestamptz not null,
    first_lease_id text collate "C" not null,        -- that stays charged
    found_at       timestamptz not null default now(),
    attempted_at   timestamptz,                      -- when the store was asked first
    outcome        text collate "C" check (outcome in ('credited', 'over', 'unsettled', 'unknown')),
    credited       bigint not null default 0 check (credited between 0 and cost),  -- what the store still had of it
    done_at        timestamptz,
    primary key (lease_id, identity),
    check ((outcome is null) = (done_at is null))
) with (fillfactor = 90);
create index limit_lease_refund_open on limit_lease_refund (found_at) where outcome is null;
create index limit_lease_refund_age on limit_lease_refund (done_at);

-- Of a settled lease so much was given back: what it still stands for is reported + assumed - refunded.
alter table limit_lease_settlement add column refunded bigint not null default 0 check (refunded >= 0);

-- What the totals of keys have counted and was given back.
create table limit_usage_refund (
    limit_key     bigint primary key,                -- as in limit_lease_refund
    refunded      bigint not null,
    refunded_cost bigint not null,
    as_of         timestamptz not null               -- of the newest charge in it
) with (fillfactor = 70);

-- How far identities are looked through: reading goes on at the first block that may still meet another one.
create table limit_identity_position (
    partition   integer primary key,
    next_offset bigint not null
);
insert into limit_identity_position select n, 0 from generate_series(0, 3) n;

grant select, insert, delete on limit_lease_refund to millrace_leases;
grant update (attempted_at, outcome, credited, done_at) on limit_lease_refund to millrace_leases;
grant update (refunded) on limit_lease_settlement to millrace_leases;
grant select, insert, update on limit_usage_refund to millrace_leases;
grant select on limit_identity_position to millrace_leases;
grant update (next_offset) on limit_identity_position to millrace_leases;
grant select on limit_usage_refund to millrace_ingress;
grant select on limit_lease_refund, limit_usage_refund, limit_identity_position to millrace_operator, millrace_reader;

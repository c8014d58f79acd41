-- What became of every lease of the rate limiter: granted = reported + assumed + released.

create table limit_lease_settlement (
    lease_id       text collate "C" primary key,
    key_hash       text collate "C" not null,        -- of the bucket; the key itself is not here
    policy_id      text collate "C" not null,
    policy_version bigint not null,
    granted        bigint not null check (granted > 0),
    reported       bigint not null check (reported >= 0),  -- spent, as the gateway said: what may be billed
    assumed        bigint not null check (assumed >= 0),   -- charged, and nobody said that it was spent
    released       bigint not null check (released >= 0),
    reason         text collate "C" not null check (reason in ('returned', 'closed', 'expired', 'charged_whole')),
    ended_at       timestamptz not null,
    settled_at     timestamptz not null default now()
) with (fillfactor = 90);
create index limit_lease_settlement_age on limit_lease_settlement (ended_at);

-- How far the stream is folded: reading goes on at the first report of the oldest lease that is not settled.
create table limit_lease_position (
    partition       integer primary key,
    next_offset     bigint not null,
    open_leases     bigint not null default 0,
    oldest_open_end timestamptz,
    settled_until   timestamptz not null default 'epoch'  -- of leases that ended before it all were looked at
);
insert into limit_lease_position (partition, next_offset) select n, 0 from generate_series(0, 3) n;

grant select, insert, delete on limit_lease_settlement to millrace_leases;
grant update (reported, assumed) on limit_lease_settlement to millrace_leases;
grant select on limit_lease_position to millrace_leases;
grant update (next_offset, open_leases, oldest_open_end, settled_until) on limit_lease_position to millrace_leases;
grant select on limit_lease_settlement, limit_lease_position to millrace_operator, millrace_reader;

-- Whoever may open keys of tenants has a lease, renews it, and says with that up to which shred it has forgotten what it held.
-- Shreds are numbered by the mover, one after the other, once they are committed: who looks at the database behind a number
-- finds the keys destroyed.
alter table tenant_key add column shred_seq bigint;
create index tenant_key_shreds on tenant_key (shred_seq) where shred_seq is not null;

create table key_holder (
    holder_id   text collate "C" primary key, -- of one lease: who lost it takes another under another id
    kind        text collate "C" not null,    -- the role of the process
    instance    text collate "C" not null,
    started_at  timestamptz not null,
    lease_until timestamptz not null,         -- a process that lets it pass opens nothing more, by its own clock
    acked_seq   bigint not null               -- it holds nothing of what was shredded up to this one
);
grant select on key_holder to millrace_tenancy_mover, millrace_operator;

-- A lease of who holds nothing: it begins behind the newest shred. A try that came through unheard is the same lease.
create function key_lease_taken(holder text, instance text, lease_s integer) returns bigint
language sql security definer set search_path = pg_catalog, public as $$
    delete from key_holder h where h.lease_until < clock_timestamp() - interval '1 day';
    insert into key_holder as h (holder_id, kind, instance, started_at, lease_until, acked_seq)
    values (holder, session_user, instance, clock_timestamp(), clock_timestamp() + lease_s * interval '1 second',
            (select coalesce(max(k.shred_seq), 0) from tenant_key k))
    on conflict (holder_id) do update set lease_until = excluded.lease_until, acked_seq = excluded.acked_seq
        where h.kind = excluded.kind
    returning h.acked_seq;
$$;

-- The lease goes on, and what up to acked was shredded is forgotten; the tenants shredded since, some at once. Without them one
-- row of nulls; no row where there is no such lease, as in a database that was put back from before.
create function key_lease_kept(holder text, acked bigint, lease_s integer) returns table (shred_seq bigint, tenant_id text)
language sql security definer set search_path = pg_catalog, public as $$
    with kept as (
        update key_holder h set lease_until = clock_timestamp() + lease_s * interval '1 second', acked_seq = acked
        where h.holder_id = holder and h.kind = session_user and h.acked_seq <= acked
          and acked <= (select coalesce(max(k.shred_seq), 0) from tenant_key k)
        returning 1)
    select s.shred_seq, s.tenant_id
    from kept left join lateral (
        select distinct k.shred_seq, k.tenant_id from tenant_key k where k.shred_seq > acked order by k.shred_seq limit 1000) s on true;
$$;

-- Who stops in order holds nothing any more, and nobody waits for it.
create function key_lease_left(holder text) returns void
language sql security definer set search_path = pg_catalog, public as $$
    update key_holder h set lease_until = '-infinity' where h.holder_id = holder and h.kind = session_user;
$$;

revoke all on function key_lease_taken(text, text, integer), key_lease_kept(text, bigint, integer), key_lease_left(text) from public;
grant execute on function key_lease_taken(text, text, integer), key_lease_kept(text, bigint, integer), key_lease_left(text)
    to millrace_ingress, millrace_tenancy_mover;

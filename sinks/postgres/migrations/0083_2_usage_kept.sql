-- Usage is kept for 400 days, then it is removed behind a floor: of each partition, the oldest places first. What is not in
-- ClickHouse yet stays, and what is younger stops the floor, so that places above it have no gap.
alter table usage_counted add column floor_seq bigint not null default 0;  -- up to here all is removed
alter table usage_counted add column removed_until timestamptz;            -- the newest instant of what was removed

create function usage_remove(of_partition integer, at_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    floor   bigint;
    until   bigint;
    removed bigint;
    newest  timestamptz;
begin
    select c.floor_seq into floor from usage_counted c where c.partition = of_partition for update;
    select coalesce(min(e.seq) filter (where e.occurred_at > now() - interval '400 days') - 1, max(e.seq)) into until
    from (select u.seq, u.occurred_at from usage_event u
          where u.partition = of_partition and u.seq > floor
            and u.seq <= (select p.last_seq from stream_position p where p.follower = 'tenancy_usage'
                            and p.topic = 'tenancy.counted.v1' and p.partition = of_partition)
          order by u.seq limit at_most) e;
    if until is null or until <= floor then
        return 0;
    end if;
    with gone as (
        delete from usage_event u where u.partition = of_partition and u.seq > floor and u.seq <= until
        returning u.tenant_id, u.source, u.event_id, u.occurred_at),
    contradicted as (
        delete from usage_conflict c using gone g
        where c.tenant_id = g.tenant_id and c.source = g.source and c.event_id = g.event_id)
    select count(*), max(g.occurred_at) into removed, newest from gone g;
    update usage_counted c set floor_seq = until, removed_until = greatest(c.removed_until, newest)
    where c.partition = of_partition;
    return removed;
end $$;
revoke all on function usage_remove(integer, integer) from public;
grant execute on function usage_remove(integer, integer) to millrace_tenancy_metering;

-- What people and machines have not done yet, as it is told to those who watch.

-- Open cases of one kind, the oldest first.
create index repair_case_open_age on repair_case (kind, opened_at) where state <> 'resolved';

-- How long the oldest event of each topic has waited for Kafka, 0 where none does. A worker reads no outbox: it hears this.
create function events_unpublished() returns table (topic text, oldest_s double precision)
language sql stable security definer set search_path = public, pg_temp as $$
    select replace(p.topic, 'commands.', 'events.'),
           greatest(0, coalesce(max(extract(epoch from clock_timestamp() - o.occurred_at)), 0))::double precision
    from partition_owner p
    left join lateral (
        select e.occurred_at from outbox e
        where e.topic = replace(p.topic, 'commands.', 'events.') and e.partition = p.partition
          and e.seq > p.published_seq
        order by e.seq limit 1
    ) o on true
    group by 1
$$;
revoke all on function events_unpublished from public;
grant execute on function events_unpublished to millrace_worker;

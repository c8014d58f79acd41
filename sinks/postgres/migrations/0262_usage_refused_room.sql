-- What people decided on takes no room of its sender any more: the bound is of what waits for them. Of what is decided the
-- newest 1,000 of each sender in a partition stay, for 35 days; the audit log keeps every decision.
drop index usage_refused_bound;
create index usage_refused_bound on usage_refused (partition, sender) where state in ('open', 'asked');
create index usage_refused_decided on usage_refused (partition, sender, decided_at desc, refused_id)
    where state not in ('open', 'asked');

-- What is older than 35 days, however it was decided, and decided ones past the newest; never what is asked and not judged yet.
create or replace function usage_refused_remove(at_most integer) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with gone as (
        delete from public.usage_refused where refused_id in (
            (select u.refused_id from public.usage_refused u
             where u.refused_at < now() - interval '35 days' and u.state <> 'asked' order by u.refused_at limit at_most)
            union
            (select d.refused_id
             from (select u.refused_id, row_number() over (partition by u.partition, u.sender
                                                           order by u.decided_at desc, u.refused_id) as place
                   from public.usage_refused u where u.state not in ('open', 'asked')) d
             where d.place > 1000 limit at_most))
        returning 1)
    select count(*) from gone
$$;

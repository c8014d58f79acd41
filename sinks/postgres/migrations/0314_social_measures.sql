-- What fan-out, propagation and moderation did, counted once each, in gapless places for the sink of ClickHouse.

create table social_measure (
    measure_id bigint generated always as identity primary key,
    seq        bigint unique,  -- 1, 2, 3 without a gap, once it has its place
    at         timestamptz not null default clock_timestamp(),
    measure    text collate "C" not null check (measure in ('fanout', 'propagation', 'report', 'decision', 'answer')),
    subject    text collate "C" not null,
    quantity   bigint not null check (quantity >= 0),
    took_us    bigint not null check (took_us >= 0)
);
create index social_measure_unplaced on social_measure (measure_id) where seq is null;
comment on table social_measure is 'What social posts did, for analysts; no post, no user';

create table social_measured (
    is_it    boolean primary key default true check (is_it),
    last_seq bigint not null default 0
);
insert into social_measured default values;
comment on table social_measured is 'The last place of social_measure; whoever gives places holds this row';

-- What a follower of events has written into homes, up to which event of a partition: an event that comes again counts no more.
create table social_fanout_counted (
    follower   text collate "C" not null,
    partition  integer not null,
    last_seq   bigint not null default 0,
    told       jsonb not null default '{}',  -- by subject: [quantity, took_us], since the last flush
    flushed_at timestamptz not null default clock_timestamp(),
    primary key (follower, partition)
);
comment on table social_fanout_counted is 'What fan-out counted, and of which events';

-- Counts what was done for events of some partitions, unless another process has counted any of them. Whether it did.
create function social_fanout_count(of_follower text, partitions integer[], seqs_before bigint[], seqs bigint[],
                                    subjects text[], quantities bigint[], took bigint[]) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into public.social_fanout_counted (follower, partition)
    select of_follower, p from unnest(partitions) p order by p on conflict do nothing;
    perform from public.social_fanout_counted c
    where c.follower = of_follower and c.partition = any (partitions) order by c.partition for update;
    if exists (select from unnest(partitions, seqs_before) t (partition, before)
               join public.social_fanout_counted c on c.follower = of_follower and c.partition = t.partition
               where c.last_seq <> t.before) then
        return false;
    end if;
    update public.social_fanout_counted c set last_seq = t.seq from unnest(partitions, seqs) t (partition, seq)
    where c.follower = of_follower and c.partition = t.partition;
    update public.social_fanout_counted c set told = (
        select coalesce(jsonb_object_agg(s.subject, jsonb_build_array(s.quantity, s.took)), '{}') from (
            select n.subject, sum(n.quantity) as quantity, sum(n.took) as took from (
                select * from unnest(subjects, quantities, took) u (subject, quantity, took)
                union all
                select o.key, (o.value ->> 0)::bigint, (o.value ->> 1)::bigint from jsonb_each(c.told) o) n
            group by n.subject) s)
    where c.follower = of_follower and c.partition = partitions[1];
    return true;
end $$;

-- Gives places to what has none, and removes some that ClickHouse has had for two days. Returns the last place.
create function social_measures_place(flush_s integer, at_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last bigint;
    many bigint;
begin
    select m.last_seq into last from public.social_measured m for update;
    with due as (
        select c.follower, c.partition, c.told from public.social_fanout_counted c
        where c.told <> '{}' and c.flushed_at < clock_timestamp() - make_interval(secs => flush_s)
        order by c.follower, c.partition for update skip locked),
    flushed as (
        update public.social_fanout_counted c set told = '{}', flushed_at = clock_timestamp()
        from due d where c.follower = d.follower and c.partition = d.partition)
    insert into public.social_measure (measure, subject, quantity, took_us)
    select 'fanout', t.key, (t.value ->> 0)::bigint, (t.value ->> 1)::bigint from due d, jsonb_each(d.told) t
    where t.value <> '[0, 0]';
    with placed as (
        select m.measure_id, row_number() over (order by m.measure_id) as n
        from public.social_measure m where m.seq is null order by m.measure_id limit at_most)
    update public.social_measure m set seq = last + p.n from placed p where p.measure_id = m.measure_id;
    get diagnostics many = row_count;
    update public.social_measured m set last_seq = last + many where many > 0;
    delete from public.social_measure where measure_id in (
        select m.measure_id from public.social_measure m
        where m.at < now() - interval '2 days'
          and m.seq <= (select p.last_seq from public.stream_position p where p.follower = 'social_measures' and p.partition = 0)
        order by m.measure_id limit at_most);
    return last + many;
end $$;

-- A decision was seen to have arrived at a consumer.
create function moderation_arrived() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into public.social_measure (measure, subject, quantity, took_us)
    select 'propagation', new.consumer, 1, greatest(0, (extract(epoch from new.verified_at) * 1000000)::bigint
               - coalesce((extract(epoch from new.began_at) * 1000000)::bigint, d.created_at))
    from public.moderation_decision d where d.decision_id = new.decision_id;
    return null;
end $$;
create trigger moderation_arrived after update on moderation_propagation
    for each row when (old.state = 'pending' and new.state = 'verified') execute function moderation_arrived();

-- A report that counts, by its reason.
create function moderation_reported() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into public.social_measure (measure, subject, quantity, took_us) values ('report', new.reason, 1, 0);
    return null;
end $$;
create trigger moderation_reported after insert on moderation_report for each row execute function moderation_reported();

-- A decision; and how long the first report since the one before waited for it, where there was any.
create function moderation_decided() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into public.social_measure (measure, subject, quantity, took_us) values ('decision', new.decision, 1, 0);
    insert into public.social_measure (measure, subject, quantity, took_us)
    select 'answer', new.decision, 1, greatest(0, new.created_at - min(r.created_at)) from public.moderation_report r
    where r.object_id = new.object_id and r.created_at > coalesce(
        (select d.created_at from public.moderation_decision d
         where d.object_id = new.object_id and d.version = new.version - 1), 0)
    having count(*) > 0;
    return null;
end $$;
create trigger moderation_decided after insert on moderation_decision for each row execute function moderation_decided();

revoke all on function social_fanout_count(text, integer[], bigint[], bigint[], text[], bigint[], bigint[]),
    social_measures_place(integer, integer), moderation_arrived(), moderation_reported(), moderation_decided() from public;
grant execute on function social_fanout_count(text, integer[], bigint[], bigint[], text[], bigint[], bigint[]) to millrace_social_worker;
grant select on social_fanout_counted to millrace_social_worker;
grant insert (measure, subject, quantity, took_us) on social_measure to millrace_social_worker;
grant execute on function social_measures_place(integer, integer) to millrace_sink;
grant select on social_measure to millrace_sink, millrace_operator;
grant select on social_measured to millrace_sink, millrace_operator, millrace_reader;
grant select on social_fanout_counted to millrace_operator;

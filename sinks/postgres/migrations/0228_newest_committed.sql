-- How far each partition's events are committed, for those who follow them and read no outbox: Kafka was told no more, or this
-- database is a copy of an earlier moment.
create function newest_committed(p_topic text, p_partitions integer[]) returns table (partition integer, seq bigint)
language sql stable security definer set search_path = public, pg_temp as $$
    select p.n, (select o.seq from outbox o where o.topic = p_topic and o.partition = p.n order by o.seq desc limit 1)
    from unnest(p_partitions) as p (n)
$$;

-- What fan-out counts of its work, for analysts.

-- name: counted
-- Up to which events of these partitions everything is counted. Primary key.
select partition, last_seq from social_fanout_counted where follower = %(follower)s and partition = any (%(partitions)s::int[]);

-- name: count
-- Counts the work for the next events, unless another process has.
select social_fanout_count(%(follower)s, %(partitions)s::int[], %(seqs_before)s::bigint[], %(seqs)s::bigint[],
                           %(subjects)s::text[], %(quantities)s::bigint[], %(took)s::bigint[]);

-- name: count_late
-- What waited and is in its homes now, in the transaction that takes the tasks away.
insert into social_measure (measure, subject, quantity, took_us) values ('fanout', 'late_deliveries', %(deliveries)s, 0);

-- What the comparison of stores needs of every service.

-- name: outbox_ends
-- In the check's snapshot. Primary key.
select partition, max(seq) from outbox where topic = %(events_topic)s group by partition;

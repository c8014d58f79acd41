-- What the sink of ClickHouse reads of what social posts did.

-- name: measure_end
-- The last place, after those that had none got theirs.
select 0, social_measures_place(%(flush_s)s, %(limit)s);

-- name: measure_rows
-- In order of their places. Served by the unique key.
select 0, seq, (extract(epoch from at) * 1000000)::bigint, measure, subject, quantity, took_us
from social_measure where seq > %(after)s and seq <= %(until)s order by seq limit %(limit)s;

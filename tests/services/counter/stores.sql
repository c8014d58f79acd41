-- name: clickhouse_events
-- Versions of counters as ClickHouse has them up to the compared positions.
select 'event', intDiv(toUnixTimestamp(occurred_at), 3600) as hour, '', '', count(), sum(seq), sum(version)
from counters where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour;

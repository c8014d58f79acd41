-- name: clickhouse_events
-- What ClickHouse has up to the compared positions.
select 'event', intDiv(toUnixTimestamp(occurred_at), 3600) as hour, '', '', count(), sum(seq), sum(version)
from social_events where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour;

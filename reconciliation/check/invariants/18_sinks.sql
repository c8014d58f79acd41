-- id: sinks
-- title: Every sink of ClickHouse goes on: what it lacks it takes
-- severity: major
-- owner: clickhouse_sink
-- source: comparison
-- Where the events end that a sink takes; of other topics Kafka says it, or the service.
select partition, max(seq) from outbox where topic = %(events_topic)s group by partition

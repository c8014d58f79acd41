-- What ClickHouse took for a tenant. A view knows the columns of its day, so it is made again.
alter table tenant_cost_slices add column if not exists clickhouse_us UInt64 default 0;

create or replace view tenant_cost as
select tenant_id, toStartOfHour(ended_at) as hour, sum(calls) as calls, sum(database_us) / 1000 as database_ms,
       sum(commands) as commands, sum(owner_us) / 1000 as owner_ms, max(bytes_stored) as bytes_stored,
       sum(clickhouse_us) / 1000 as clickhouse_ms
from tenant_cost_slices group by tenant_id, hour;

-- Commands, the owner's time, and bytes of what tenants keep. A view knows the columns of its day, so it is made again.
alter table tenant_cost_slices add column if not exists commands UInt64 default 0;
alter table tenant_cost_slices add column if not exists owner_us UInt64 default 0;
alter table tenant_cost_slices add column if not exists bytes_stored UInt64 default 0;

create or replace view tenant_cost as
select tenant_id, toStartOfHour(ended_at) as hour, sum(calls) as calls, sum(database_us) / 1000 as database_ms,
       sum(commands) as commands, sum(owner_us) / 1000 as owner_ms, max(bytes_stored) as bytes_stored
from tenant_cost_slices group by tenant_id, hour;

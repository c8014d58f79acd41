-- What analysts ask: what a tenant cost, by the hour.
create or replace view tenant_cost as
select tenant_id, toStartOfHour(ended_at) as hour, sum(calls) as calls, sum(database_us) / 1000 as database_ms
from tenant_cost_slices group by tenant_id, hour;

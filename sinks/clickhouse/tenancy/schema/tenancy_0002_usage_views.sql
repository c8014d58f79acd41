-- What analysts ask: usage of tenants, and by the hour.
create or replace view usage_events as
select tenant_id, source, event_id, dimension, subject, quantity, occurred_at from tenant_usage;
create or replace view usage_hourly as
select tenant_id, dimension, toStartOfHour(occurred_at) as hour, sum(quantity) as quantity, count() as events
from tenant_usage group by tenant_id, dimension, hour;

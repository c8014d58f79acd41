-- Usage from Kafka that does not count: what waits for a person first, then the newest. Index usage_refused_in_order.
select refused_id, refused_at, reason, sender, said_tenant, state, is_whole, bytes, partition, "offset", said, fields,
       decided_by, note
from usage_refused
order by state not in ('open', 'asked'), refused_at desc, refused_id limit %(limit)s

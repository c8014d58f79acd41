-- id: 20
-- title: Everything that a caller was told is committed exists
-- severity: critical
-- owner: ingress
-- source: comparison
-- One chunk of what a load generator recorded (arrays of equal length); returns what does not exist.
select a.merchant, a.idempotency_key, a.aggregate_key, a.event_id, a.version
from unnest(%(merchants)s::text[], %(keys)s::text[], %(aggregate_keys)s::text[], %(event_ids)s::text[],
            %(versions)s::bigint[]) as a (merchant, idempotency_key, aggregate_key, event_id, version)
left join idempotency i on i.merchant_id = a.merchant and i.key = a.idempotency_key
left join outbox o on o.event_id = a.event_id and o.aggregate_key = a.aggregate_key
                  and o.version = coalesce(a.version, o.version)
left join payment_intent p on p.id = a.aggregate_key
left join merchant_account m on m.id = a.aggregate_key
where i.event_id is distinct from a.event_id or o.event_id is null
   or coalesce(p.version, m.version, 0) < coalesce(a.version, 1)

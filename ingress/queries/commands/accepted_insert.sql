-- Notes what was answered 202, so that every ingress process knows it is pending. A lost note costs a 404 until the
-- decision, never an effect: its commit does not wait for the disk.
insert into accepted_request (merchant_id, request_id, deadline_at, idempotency_key, request_hash, aggregate_key)
select w.merchant_id, w.request_id,
       case when w.deadline_at > 0 then timestamptz 'epoch' + w.deadline_at * interval '1 microsecond' end,
       w.idempotency_key, w.request_hash, w.aggregate_key
from unnest(%(merchants)s::text[], %(request_ids)s::text[], %(deadlines)s::bigint[], %(keys)s::text[], %(hashes)s::bytea[],
            %(aggregates)s::text[])
    as w (merchant_id, request_id, deadline_at, idempotency_key, request_hash, aggregate_key)
on conflict (merchant_id, request_id) do update
    set deadline_at = excluded.deadline_at, accepted_at = excluded.accepted_at,
        idempotency_key = excluded.idempotency_key, request_hash = excluded.request_hash,
        aggregate_key = excluded.aggregate_key

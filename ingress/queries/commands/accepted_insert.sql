-- Notes what was answered 202, so that every ingress process knows it is pending. A lost note costs a 404 until the
-- decision, never an effect: its commit does not wait for the disk.
insert into accepted_request (merchant_id, request_id, deadline_at, idempotency_key, request_hash, aggregate_key,
                              topic, partition, "offset")
select w.merchant_id, w.request_id,
       case when w.deadline_at > 0 then timestamptz 'epoch' + w.deadline_at * interval '1 microsecond' end,
       w.idempotency_key, w.request_hash, w.aggregate_key, w.topic, w.partition, w."offset"
from unnest(%(merchants)s::text[], %(request_ids)s::text[], %(deadlines)s::bigint[], %(keys)s::text[], %(hashes)s::bytea[],
            %(aggregates)s::text[], %(topics)s::text[], %(partitions)s::integer[], %(offsets)s::bigint[])
    as w (merchant_id, request_id, deadline_at, idempotency_key, request_hash, aggregate_key, topic, partition, "offset")
on conflict (merchant_id, request_id) do update
    set deadline_at = excluded.deadline_at, accepted_at = excluded.accepted_at,
        idempotency_key = excluded.idempotency_key, request_hash = excluded.request_hash,
        aggregate_key = excluded.aggregate_key, topic = excluded.topic, partition = excluded.partition,
        "offset" = excluded."offset"

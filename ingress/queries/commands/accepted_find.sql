-- GET /v1/operations/{request_id}: answered 202, and not decided under that id. Served by the primary key.
select (extract(epoch from deadline_at) * 1000000)::bigint as deadline_at, idempotency_key, request_hash,
       aggregate_key, topic, partition, "offset"
from accepted_request
where merchant_id = %(merchant)s and request_id = %(request_id)s

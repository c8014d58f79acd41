-- GET /v1/operations/{request_id}: the newest decision of this caller under that id. Served by idempotency_request.
select status, response, operation
from idempotency
where request_id = %(request_id)s and merchant_id = %(merchant)s
order by created_at desc
limit 1

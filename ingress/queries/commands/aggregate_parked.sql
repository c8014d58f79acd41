-- GET /v1/operations/{request_id}: answered 202 and not decided; its object refuses work now. Served by the primary key.
select 1 from parked_aggregate where aggregate_key = %(aggregate_key)s

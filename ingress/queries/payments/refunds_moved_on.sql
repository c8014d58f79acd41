-- The long poll of GET /v1/refunds/{id}: which of these are not pending any more. Primary key.
select id from refund where id = any(%(ids)s::text[]) and state <> 'pending'

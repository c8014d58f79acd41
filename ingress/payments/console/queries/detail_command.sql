-- The answer that a command's caller got. Primary key.
select i.merchant_id, i.key, i.operation, i.status, i.request_id, i.event_id, i.partition, i."offset",
       encode(i.request_hash, 'hex') as request_hash, convert_from(i.response, 'UTF8') as response
from idempotency i where i.merchant_id = %(scope)s and i.key = %(key)s

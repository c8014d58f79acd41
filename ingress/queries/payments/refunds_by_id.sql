-- GET /v1/refunds/{id}, many at once. Served by the primary key; the caller compares the merchant.
select {{read Refund r}}
from refund r
where id = any(%(ids)s::text[])

-- GET /v1/disputes/{id}, many at once. Served by the primary key; the caller compares the merchant.
select {{shown Dispute d}}
from dispute d
where id = any(%(ids)s::text[])

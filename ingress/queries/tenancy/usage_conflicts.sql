-- GET /v1/usage_conflicts: a page of a tenant's own, newest first. Index usage_conflict_page.
select source, event_id, dimension, quantity, subject, (extract(epoch from occurred_at) * 1000000)::bigint,
       (extract(epoch from seen_at) * 1000000)::bigint, conflict_id
from usage_conflict
where tenant_id = %(merchant)s::text
  and (seen_at, conflict_id)
    < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by seen_at desc, conflict_id desc limit %(limit)s::int

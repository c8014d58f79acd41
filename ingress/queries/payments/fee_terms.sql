-- GET /v1/fee_policy and the console: what each published version says of one merchant, newest first. Primary key. The rest
-- of a version is other merchants' business and stays in the database.
select v.version, v.author, (extract(epoch from v.created_at) * 1000000)::bigint as published_at,
       (extract(epoch from (v.document ->> 'effective_at')::timestamptz) * 1000000)::bigint as effective_at,
       jsonb_exists(v.document -> 'merchants', %(merchant)s) as is_own,
       coalesce(v.document -> 'merchants' -> %(merchant)s::text, v.document -> 'default')::text as terms
from (select p.version, p.author, p.created_at, p.body::jsonb as document from policy_version p
      where p.kind = 'fees' order by p.version desc limit %(limit)s) v
order by v.version desc

-- GET /v1/tenants/{tenant_id}/support_grants: newest first. Primary key, and a sort of one tenant's.
select grant_id, tenant_id, requester, reason, ticket, scopes, duration_s, state, needs_consent, approvers, consented_by,
       ended_by, (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from expires_at) * 1000000)::bigint,
       version, break_glass, reviewed_by, (extract(epoch from reviewed_at) * 1000000)::bigint, findings,
       masked_fields, (extract(epoch from not_before) * 1000000)::bigint, asked_duration_s, asked_masked_fields
from support_grant
where tenant_id = %(merchant)s::text
  and (created_at, grant_id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, grant_id desc limit %(limit)s::int

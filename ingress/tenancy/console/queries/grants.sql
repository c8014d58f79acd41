-- Support grants of one tenant, or the newest of all: what is open first. Served by the primary key, or support_grant_newest.
select tenant_id, grant_id, requester, reason, ticket, scopes, approvers, needs_consent, consented_by, ended_by, created_at, expires_at,
       break_glass, reviewed_by, findings, masked_fields,
       not_before, duration_s, asked_duration_s, asked_masked_fields,
       case when state = 'active' and expires_at <= now() then 'expired'
            when state = 'active' and not_before > now() then 'approved' else state end as state
from support_grant where %(tenant)s::text is null or tenant_id = %(tenant)s
order by created_at desc limit %(limit)s

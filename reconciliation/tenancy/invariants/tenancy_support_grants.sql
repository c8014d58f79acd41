-- id: tenancy_support_grants
-- title: No support grant is active without another person, the consent that it needs, and an end within four hours
-- severity: critical
-- owner: whoever changed support access
-- source: postgres
select g.tenant_id, g.grant_id, g.state
from support_grant g
where g.duration_s > 14400 or g.approvers ? g.requester
   or (g.expires_at is not null
       and (jsonb_array_length(g.approvers) = 0 or (g.needs_consent and g.consented_by is null)
            or g.expires_at - g.duration_s * interval '1 second' < g.created_at))

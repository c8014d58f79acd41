-- id: tenancy_support_grants
-- title: No support grant is active without another person (a broken glass: two), the consent that it needs, and its early end, or lasts longer than asked
-- severity: critical
-- owner: whoever changed support access
-- source: postgres
select g.tenant_id, g.grant_id, g.state
from support_grant g
where g.duration_s > case when g.break_glass then 1800 else 14400 end or g.approvers ? g.requester
   or (g.expires_at is not null
       and (jsonb_array_length(g.approvers) < case when g.break_glass then 2 else 1 end
            or (g.needs_consent and g.consented_by is null)
            or g.expires_at - g.duration_s * interval '1 second' < greatest(g.created_at, g.not_before)
            or g.duration_s > g.asked_duration_s))

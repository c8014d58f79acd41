-- id: tenancy_glass_reviewed
-- title: Whenever support broke the glass, another person said within a day what for
-- severity: major
-- owner: support
-- source: postgres
select g.tenant_id, g.grant_id, g.requester, g.expires_at
from support_grant g
where g.break_glass and g.expires_at < now() - interval '24 hours' and g.state <> 'reviewed'

-- id: tenancy_support_audited
-- title: Calls of support are numbered without gap, each under a grant that another person approved, within its time; broken glass is told
-- severity: critical
-- owner: whoever changed support access
-- source: postgres
select h.tenant_id, '' as grant_id, h.last_seq as seq, 'a row is missing' as reason
from tenant_audit_head h
where h.last_seq <> (select count(*) from tenant_audit a where a.tenant_id = h.tenant_id)
union all
select a.tenant_id, a.grant_id, a.seq, 'no grant allowed it'
from tenant_audit a left join support_grant g on g.tenant_id = a.tenant_id and g.grant_id = a.grant_id
where a.result <> 'refused'
  and (g.grant_id is null or g.requester <> a.actor or g.expires_at is null or a.at > g.expires_at or a.at < g.not_before
       or jsonb_array_length(g.approvers) = 0 or g.approvers ? g.requester
       or (g.needs_consent and g.consented_by is null))
union all
select a.tenant_id, a.grant_id, a.seq, 'it names no grant of who called'
from tenant_audit a
where a.result = 'refused' and not exists (
    select from support_grant g where g.tenant_id = a.tenant_id and g.grant_id = a.grant_id and g.requester = a.actor)
union all
select g.tenant_id, g.grant_id, null, 'the glass was broken, and the log does not tell'
from support_grant g
where g.break_glass and g.expires_at is not null and not exists (
    select from tenant_audit a where a.tenant_id = g.tenant_id and a.grant_id = g.grant_id and a.action = 'break glass')

-- GET /v1/{kind}/policies/proposals: what waits for a second person, oldest first. Primary key range.
select p.expected as expected_version, p.author, (extract(epoch from p.proposed_at) * 1000000)::bigint as proposed_at, p.body
from policy_proposal p
where p.kind = %(kind)s
  and p.expected = coalesce((select v.version from policy_version v where v.kind = p.kind and v.state = 'active'), 0)
order by p.proposed_at
limit %(limit)s

-- id: tenancy_evidence
-- title: Evidence of tenants that are not apart stands as it was found, and safe mode, its case and its audit rows are of it
-- severity: critical
-- owner: whoever changed the isolation monitor
-- source: postgres
select v.number, v.probe, 'a person resolved it, and no audit row with a note says so' as reason
from isolation_violation v
where v.resolved_by is not null
  and (v.resolved_at is null or not exists (
      select from audit_log a
      where a.action = 'isolation.resolve' and a.object = v.number::text and a.actor = v.resolved_by and a.details ->> 'note' = v.note))
union all
select null, f.last_seq::text, 'evidence is missing'
from tenant_feed f cross join (select count(*) as number, coalesce(max(place), 0) as last from isolation_violation) v
where f.feed = 'evidence' and (v.number, v.last) <> (f.last_seq, f.last_seq)
union all
select null, a.object, 'the monitor closed the platform without evidence'
from audit_log a
where a.action = 'isolation.safe_mode' and a.actor = 'isolation_monitor'
  and not exists (select from isolation_violation v
                  where v.probe = a.object and v.evidence = a.details ->> 'evidence' and v.seen_at <= a.at)
union all
select null, m.probe, 'safe mode is not as it was said last: its audit rows or its case say something else'
from isolation_safe_mode m
left join lateral (select a.action, a.object, a.details from audit_log a
                   where a.action in ('isolation.safe_mode', 'isolation.lift') and a.outcome = 'done'
                   order by a.seq desc limit 1) a on true
where m.is_on is distinct from coalesce(a.action = 'isolation.safe_mode', false)
   or (m.is_on and (m.probe, m.evidence) is distinct from (a.object, a.details ->> 'evidence'))
   or m.is_on <> exists (select from repair_case c where c.kind = 'isolation_safe_mode' and c.state <> 'resolved')

-- The oldest open thing of each stage, each by an index.
select 'attempt not finished' as stage, (select min(x.first_at) from
    (select d.first_at from attempt_dispatch d where d.status in ('waiting', 'leased') limit %(counted)s) x) as oldest
union all
select 'processor event not applied', (select min(x.received_at) from
    (select e.received_at from provider_event e where e.state in ('stored', 'parked') order by e.next_at limit %(counted)s) x)
union all
select 'settlement posting due', (select min(r.ingested_at) from
    (select d.processor, d.report_id from settlement_due d order by d.id limit %(counted)s) x
    join settlement_report r on r.processor = x.processor and r.report_id = x.report_id)
union all
select 'repair approved, not posted', (select p.decided_at from repair_proposal p where p.state = 'approved' order by p.decided_at limit 1)
union all
select 'case open', (select min(x.opened_at) from
    (select c.opened_at from repair_case c where c.state <> 'resolved' limit %(counted)s) x)
union all
select 'parked command', (select d.parked_at from dead_letter d where d.state = 'open' order by d.parked_at limit 1)

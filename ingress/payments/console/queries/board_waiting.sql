-- Lines that wait for what they tell of, by processor and age. Served by settlement_line_waiting, then primary key.
select x.processor, count(*) as n, min(x.ingested_at) as oldest,
       count(*) filter (where x.ingested_at < now() - %(horizon)s * interval '1 day') as over_horizon
from (select l.processor, r.ingested_at from settlement_line l
      join settlement_report r on r.processor = l.processor and r.report_id = l.report_id
      where l.class = 'waiting' limit %(counted)s) x
group by x.processor order by oldest

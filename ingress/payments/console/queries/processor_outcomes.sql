-- What became of the newest finished attempts, by processor and window. Served by attempt_dispatch_done.
select x.processor, w.minutes, count(*) filter (where x.outcome not in ('declined', 'failed')) as succeeded,
       count(*) filter (where x.outcome = 'declined') as declined, count(*) filter (where x.outcome = 'failed') as failed,
       count(*) as finished,
       percentile_disc(0.5) within group (order by x.took_ms) as p50_ms,
       percentile_disc(0.95) within group (order by x.took_ms) as p95_ms
from (values (5), (60), (1440)) as w (minutes)
join (select d.processor, d.outcome, d.updated_at,
             (extract(epoch from d.updated_at - d.first_at) * 1000)::bigint as took_ms
      from attempt_dispatch d where d.status = 'done' and d.updated_at > now() - interval '1 day'
      order by d.updated_at desc limit %(counted)s) x on x.updated_at > now() - w.minutes * interval '1 minute'
group by x.processor, w.minutes order by x.processor, w.minutes

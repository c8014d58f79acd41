-- Attempts that are not finished, by processor. Served by attempt_dispatch_due, _unconfirmed and _review.
select x.processor, count(*) filter (where x.status = 'waiting' and x.unknown_count = 0) as waiting,
       count(*) filter (where x.status = 'leased') as in_flight,
       count(*) filter (where x.unknown_count > 0 and x.status <> 'review') as unknown,
       count(*) filter (where x.status = 'reported') as reported, count(*) filter (where x.status = 'review') as review,
       min(x.first_at) as oldest
from ((select d.processor, d.status, d.unknown_count, d.first_at from attempt_dispatch d
       where d.status in ('waiting', 'leased') limit %(counted)s)
      union all
      (select d.processor, d.status, d.unknown_count, d.first_at from attempt_dispatch d
       where d.status = 'reported' limit %(counted)s)
      union all
      (select d.processor, d.status, d.unknown_count, d.first_at from attempt_dispatch d
       where d.status = 'review' limit %(counted)s)) x
group by x.processor order by x.processor

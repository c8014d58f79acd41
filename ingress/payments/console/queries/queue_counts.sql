-- How much waits in every queue, each counted up to a bound, with the oldest of it. One partial index for each.
select 'attempts' as queue, count(*) as n, min(x.at) as oldest
from (select d.updated_at as at from attempt_dispatch d where d.status = 'review'
      order by d.updated_at limit %(counted)s) x
union all
select 'unknown', count(*), min(x.at)
from (select d.first_at as at from attempt_dispatch d
      where d.status in ('waiting', 'leased') and d.unknown_count > 0 limit %(counted)s) x
union all
select 'cases', count(*), min(x.at)
from (select c.opened_at as at from repair_case c where c.state <> 'resolved' limit %(counted)s) x
union all
select 'parked', count(*), min(x.at)
from (select d.parked_at as at from dead_letter d
      where d.state = 'open' or (d.state = 'retried' and d.republished_at is null) limit %(counted)s) x
union all
select 'webhooks', count(*), min(x.at)
from (select e.received_at as at from provider_event e where e.state = 'parked' limit %(counted)s) x
union all
select 'refused', count(*), min(x.at)
from (select i.created_at as at, convert_from(i.response, 'UTF8')::jsonb ->> 'code' as code
      from idempotency i where i.status = 'refused' and starts_with(i.merchant_id, 'processor:')
      order by i.created_at desc limit %(refused)s) x
where x.code <> 'stale_fact'
union all
select 'review', count(*), min(x.at)
from (select r.created_at as at, r.intent_id from risk_assessment r
      where r.outcome = 'review' and r.decided_by = '' order by r.created_at desc limit %(counted)s) x
join payment_intent p on p.id = x.intent_id and p.state = 'requires_merchant_action'

-- What reconciliation misses, by class, currency and age. Served by settlement_discrepancy_open; counted up to a bound.
select x.class, x.currency, count(*) as n, sum(x.amount) as amount, min(x.first_seen) as oldest,
       count(*) filter (where x.age < 1) as under_1d, count(*) filter (where x.age >= 1 and x.age < 3) as under_3d,
       count(*) filter (where x.age >= 3 and x.age < %(horizon)s) as under_horizon,
       count(*) filter (where x.age >= %(horizon)s) as over_horizon
from (select d.class, d.currency, d.amount, d.first_seen, extract(epoch from now() - d.first_seen) / 86400 as age
      from settlement_discrepancy d where d.state = 'open' order by d.first_seen limit %(counted)s) x
group by x.class, x.currency order by oldest

-- How invoices are made, and made again. The metering, the ingress and the invariants read alike.

-- name: invoices_last
-- For how long a transaction of this session may last, in milliseconds (of both bounds the session has, this one), and for how
-- long it may stand still in one.
select set_config('transaction_timeout', %(at_most)s, false), set_config('statement_timeout', %(at_most)s, false),
       set_config('idle_in_transaction_session_timeout', %(held)s, false);

-- name: runs_due
-- The runs without an invoice whose grace is over, of each tenant in their order, but for some. Primary keys.
select tenant_id, number from billing_run r
where period_to + grace_s * interval '1 second' <= now()
  and not exists (select from tenant_invoice i where i.tenant_id = r.tenant_id and i.run_number = r.number)
  and not exists (select from unnest(%s::text[], %s::bigint[]) as w (tenant_id, number)
                  where w.tenant_id = r.tenant_id and w.number = r.number)
order by tenant_id, number limit %s;

-- name: run_terms
-- What a run fixed. Primary key.
select billing_run_id, invoice_id, tenant_id, currency, prices,
       (extract(epoch from period_from) * 1000000)::bigint, (extract(epoch from period_to) * 1000000)::bigint
from billing_run where tenant_id = %(tenant)s and number = %(number)s;

-- name: counted_cut
-- Up to where all usage is counted: of every partition from 0 on.
select coalesce(array_agg(last_seq order by partition), '{}') from usage_counted;

-- name: invoice_newest
-- The one before: its place, its cuts, and the credit that it left. Primary key, from the right.
select ordinal, cut, entries, credit_left from tenant_invoice where tenant_id = %s order by ordinal desc limit 1;

-- name: invoices_of_credit
-- The invoices of a tenant whose credit was not given back: place and id; those made before it was are a person's. Primary key.
select ordinal, invoice_id from tenant_invoice
where tenant_id = %(tenant)s and returned is not null
  and ordinal not in (select unnest(returned) from tenant_invoice where tenant_id = %(tenant)s)
order by ordinal;

-- name: intents_void
-- Those of some intents that nobody can pay any more. Primary key.
select id from payment_intent where id = any(%s::text[]) and state = 'canceled';

-- name: credit_taken
-- What invoices of a tenant had taken of its credit. Primary key.
select invoice_credit_taken(%s::text, %s::bigint[]);

-- name: entries_cut
-- Up to where a tenant's entries are known: they are numbered without gap, in the order of their commits. Primary key.
select coalesce(max(number), 0) from billing_entry where tenant_id = %s;

-- name: entries_taken
-- The entries of an invoice, in order. Primary key.
select entry_id, kind, dimension, quantity, unit_price, (extract(epoch from at) * 1000000)::bigint,
       (extract(epoch from period_from) * 1000000)::bigint, (extract(epoch from period_to) * 1000000)::bigint, amount, reason
from billing_entry
where tenant_id = %(tenant)s and number > %(entries_before)s and number <= %(entries)s
order by number;

-- name: invoice_place
-- Of an invoice that stands: its run, its cuts, those of the one before, the credit, and what it says. Primary key.
select i.tenant_id, i.run_number, i.ordinal, i.cut, coalesce(b.cut, '{}'), i.entries, coalesce(b.entries, 0),
       coalesce(b.credit_left, 0) + invoice_credit_taken(i.tenant_id, i.returned), i.late_rule, i.meter_version, i.credit_left,
       i.document
from tenant_invoice i left join tenant_invoice b on b.tenant_id = i.tenant_id and b.ordinal = i.ordinal - 1
where i.invoice_id = %s;

-- name: used_in_period
-- What was used in the period of a run, up to a cut, and the sums of both halves of what digests say of its events. Index
-- usage_event_time.
select e.dimension, sum(e.quantity), count(*), sum(('x' || left(h.hex, 16))::bit(64)::bigint),
       sum(('x' || substr(h.hex, 17, 16))::bit(64)::bigint)
from billing_run r
cross join lateral jsonb_object_keys(r.prices) as p (dimension)
join usage_event e on e.tenant_id = r.tenant_id and e.dimension = p.dimension
    and e.occurred_at >= r.period_from and e.occurred_at < r.period_to
cross join lateral (  -- once for each event: not taken into both sums
    select usage_event_sha256(e.tenant_id, e.source, e.event_id, e.dimension, e.subject, e.quantity, e.occurred_at)
    offset 0) as h (hex)
where r.tenant_id = %(tenant)s and r.number = %(number)s and e.seq <= coalesce((%(cut)s::bigint[])[e.partition + 1], 0)
group by e.dimension;

-- name: used_late
-- What came for periods that were billed before, between two cuts, how much of each was known before, and what it costs: as
-- the run of its period fixed, or by rule 1 as this run did. Of periods that nothing can come for any more, none is looked
-- at. Index usage_event_time.
-- The earlier invoices are found first: a plan for any number of them would look at all for each run of the tenant.
with before as materialized (
    select i.tenant_id, i.run_number, r.prices, last.created_at - %(late_max_s)s * interval '1 second' as ends_after
    from billing_run r
    join tenant_invoice last on last.tenant_id = r.tenant_id and last.ordinal = %(ordinal)s - 1
    join tenant_invoice i on i.tenant_id = r.tenant_id and i.ordinal < %(ordinal)s
    where r.tenant_id = %(tenant)s and r.number = %(number)s),
billed as materialized (
    select b.tenant_id, b.number, b.period_from, b.period_to,
           case when %(late_rule)s = 1 then i.prices else b.prices end as prices
    from before i
    join billing_run b on b.tenant_id = i.tenant_id and b.number = i.run_number and b.period_to > i.ends_after)
select e.dimension, (extract(epoch from b.period_from) * 1000000)::bigint,
       (extract(epoch from b.period_to) * 1000000)::bigint,
       sum(e.quantity) filter (where k.is_late), count(*) filter (where k.is_late),
       coalesce(sum(e.quantity) filter (where not k.is_late), 0), p.price, sum(('x' || left(h.hex, 16))::bit(64)::bigint),
       sum(('x' || substr(h.hex, 17, 16))::bit(64)::bigint)
from billed b
cross join lateral jsonb_each_text(b.prices) as p (dimension, price)
join usage_event e on e.tenant_id = b.tenant_id and e.dimension = p.dimension
    and e.occurred_at >= b.period_from and e.occurred_at < b.period_to
cross join lateral (select e.seq > coalesce((%(before)s::bigint[])[e.partition + 1], 0)) as k (is_late)
cross join lateral (
    select case when k.is_late
        then usage_event_sha256(e.tenant_id, e.source, e.event_id, e.dimension, e.subject, e.quantity, e.occurred_at) end
    offset 0) as h (hex)
where e.seq <= coalesce((%(cut)s::bigint[])[e.partition + 1], 0)
group by e.dimension, p.price, b.number, b.period_from, b.period_to
having bool_or(k.is_late);

-- name: again_due
-- The invoices that are to be made again and wait longest, but for some. The table has those alone that took an ingress too long.
select tenant_id, invoice_id from invoice_again a
where made_at is null
  and not exists (select from unnest(%s::text[], %s::text[]) as w (tenant_id, invoice_id)
                  where w.tenant_id = a.tenant_id and w.invoice_id = a.invoice_id)
order by asked_at limit %s;

-- name: again_made
-- What one of them is. Primary key.
update invoice_again set made_at = clock_timestamp(), document = %s where tenant_id = %s and invoice_id = %s;

-- name: invoice_insert
-- Once for each run: a second process that made it too fails at the primary key.
insert into tenant_invoice (tenant_id, ordinal, invoice_id, run_number, cut, entries, returned, late_rule, meter_version, credit_left,
                            document)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

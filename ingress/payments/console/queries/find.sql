-- The search: what an id is of, and whose. Every branch asks one index, named beside it, for equal values only.
with recursive event_processor (name, n) as (  -- one probe for each processor that ever told something
    (select e.processor, 1 from provider_event e order by e.processor limit 1)
    union all
    select (select e.processor from provider_event e where e.processor > p.name order by e.processor limit 1), p.n + 1
    from event_processor p where p.name is not null and p.n < %(processors)s::int
), line_processor (name, n) as (  -- and for each processor or bank that ever reported
    (select r.processor, 1 from settlement_report r order by r.processor limit 1)
    union all
    select (select r.processor from settlement_report r where r.processor > p.name order by r.processor limit 1), p.n + 1
    from line_processor p where p.name is not null and p.n < %(processors)s::int
), dispute_processor (name, n) as (
    (select d.processor, 1 from dispute d order by d.processor limit 1)
    union all
    select (select d.processor from dispute d where d.processor > p.name order by d.processor limit 1), p.n + 1
    from dispute_processor p where p.name is not null and p.n < %(processors)s::int
)
-- primary key
select 'payment' as kind, p.id, p.id as aggregate_key, p.merchant_id as owner, p.state as note
from payment_intent p where p.id = %(q)s::text
union all  -- primary key
select 'refund', r.id, r.intent_id, r.merchant_id, r.state from refund r where r.id = %(q)s::text
union all  -- primary key
select 'dispute', d.id, d.intent_id, d.merchant_id, d.state from dispute d where d.id = %(q)s::text
union all  -- unique (processor, provider_ref)
select 'dispute', d.id, d.intent_id, d.merchant_id, d.state
from dispute_processor p join dispute d on d.processor = p.name and d.provider_ref = %(q)s::text
union all  -- primary key
select 'attempt', a.operation_id, a.intent_id, a.processor, a.kind || ', ' || a.status
from processor_attempt a where a.intent_id = %(intent)s::text and a.attempt = %(attempt)s::int
union all  -- attempt_dispatch_provider_ref, while the worker keeps its row
select 'attempt', a.operation_id, a.intent_id, a.merchant_id, 'provider reference of ' || a.kind
from attempt_dispatch a where a.provider_ref = %(q)s::text
union all  -- idempotency_request
select 'command', i.request_id, i.aggregate_key, i.merchant_id, i.operation || ', ' || i.status
from idempotency i where i.request_id = %(q)s::text
union all  -- dead_letter_request
select 'parked command', d.request_id, d.aggregate_key, d.merchant_id, d.reason
from dead_letter d where d.request_id = %(q)s::text
union all  -- primary key
select 'event', o.event_id, o.aggregate_key, o.scope, 'version ' || o.version
from outbox o
where o.topic = %(events)s::text and o.partition = %(partition)s::int and o.seq = %(seq)s::bigint and o.event_id = %(q)s::text
union all  -- primary key; what it is about may be no payment of ours
select 'processor event', e.provider_event_id, i.id, e.processor, e.event_type || ', ' || e.state
from event_processor p join provider_event e on e.processor = p.name and e.provider_event_id = %(q)s::text
left join payment_intent i on i.id = e.reference
union all  -- primary key
select 'settlement line', l.line_id, l.intent_id, l.processor, l.type || ', ' || l.class
from line_processor p join settlement_line l on l.processor = p.name and l.line_id = %(q)s::text
union all  -- unique
select 'ledger transaction', t.reference, t.aggregate_key, null, t.kind from ledger_txn t where t.reference = %(q)s::text
union all  -- primary key
select 'ledger transaction', t.reference, t.aggregate_key, null, t.kind from ledger_txn t where t.txn_id = %(number)s::bigint
union all  -- primary key
select 'journal entry', j.id, j.id, j.scope, j.kind from journal_entry j where j.id = %(q)s::text
union all  -- primary key
select 'payout', p.id, p.account_id, p.merchant_id, p.state from payout p where p.id = %(q)s::text
union all  -- primary key
select 'account', a.id, a.id, a.merchant_id, a.state from merchant_account a where a.id = %(q)s::text
union all  -- primary key
select 'case', c.id, null, c.processor, c.kind || ', ' || c.state from repair_case c where c.id = %(q)s::text
union all  -- repair_case_reference
(select 'case', c.id, null, c.processor, c.kind || ', ' || c.state
 from repair_case c where c.reference = %(q)s::text order by c.opened_at desc limit %(limit)s::int)
union all  -- primary key
select 'repair', r.id, null, r.author, r.template || ', ' || r.state from repair_proposal r where r.id = %(q)s::text
union all  -- primary key
select 'closing', c.id, c.case_id, c.author, c.reason || ', ' || c.state from case_closing c where c.id = %(q)s::text
union all  -- primary key
select 'outcome', o.id, o.case_id, o.author, (o.fact ->> 'status') || ', ' || o.state
from attempt_outcome_proposal o where o.id = %(q)s::text
union all  -- primary key
select 'signing key', k.id, null, k.merchant_id, case when k.revoked_at is null then 'in force' else 'revoked' end
from merchant_signing_key k where k.id = %(q)s::text
union all  -- unique
select 'delivery', d.id, d.aggregate_key, d.endpoint_id, d.operation || ', ' || d.state
from merchant_webhook_delivery d where d.id = %(q)s::text
union all  -- primary key
select 'endpoint', e.id, null, e.merchant_id, e.state from merchant_webhook_endpoint e where e.id = %(q)s::text
union all  -- payment_intent_of_merchant
(select 'merchant', p.merchant_id, null, p.merchant_id, 'has payments' from payment_intent p where p.merchant_id = %(q)s::text limit 1)
limit %(limit)s::int

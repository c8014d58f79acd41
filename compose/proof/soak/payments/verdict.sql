-- What the soak reads from Postgres once nothing moves any more; all as the reader's role.

-- name: payments
-- verdict: every payment of the run as it ended. Primary key.
select id, state, amount_received, amount_refunded, amount_disputed
from payment_intent
where id = any(%(intents)s);

-- name: under_review
-- verdict: operations that wait for a person, and whether a case says so.
select a.operation_id, a.intent_id,
       exists (select 1 from repair_case c where c.reference in (a.operation_id, a.intent_id) and c.state <> 'resolved')
from processor_attempt a
where a.status = 'manual_review';

-- name: told
-- verdict: every version of every object of a merchant that somebody had to be told of.
select o.aggregate_key, o.version
from outbox o
join payment_intent p on p.id = o.aggregate_key
where p.merchant_id = %(merchant)s;

-- name: assessments
-- verdict: every word about a payment's risk that is not the rules' own yes, with the rules that decided. Small table.
select r.intent_id, r.outcome, r.decided_by,
       coalesce((select string_agg(x ->> 'rule', ', ') from jsonb_array_elements(r.reasons::jsonb) x
                 where not coalesce((x ->> 'shadow')::boolean, false)), '')
from risk_assessment r
where r.outcome <> 'allow' or r.decided_by <> ''
order by r.intent_id, r.created_at;

-- name: asked
-- verdict: which payments any processor was ever to be asked about; what the rules blocked is an attempt that nobody
-- makes. Primary key.
select distinct intent_id from processor_attempt where intent_id = any(%(intents)s) and status <> 'blocked';

-- name: routes
-- verdict: every charge with why it went where it went, and whether its currency is the pinned one.
select a.operation_id, a.intent_id, a.processor, a.route, p.currency = %(currency)s
from processor_attempt a join payment_intent p on p.id = a.intent_id
where a.kind in ('authorize', 'purchase') and a.status <> 'blocked';

-- name: payouts
-- verdict: every payout there is.
select id, merchant_id, amount, currency, state from payout;

-- name: frozen
-- verdict: merchants that are frozen.
select merchant_id from frozen_merchant;

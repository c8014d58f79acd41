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

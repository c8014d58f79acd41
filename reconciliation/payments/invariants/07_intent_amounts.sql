-- id: 7
-- title: The amounts and the state of every intent agree with the ledger, its refunds and its disputes
-- severity: critical
-- owner: payments
-- source: postgres
-- Journal entries (jr_) and merchants' accounts (ma_) belong to no intent. What counts as disputed is the rule of dataflows/payments/domain/dispute.py.
with posted as (
    select t.aggregate_key as id,
           coalesce(sum(e.credit) filter (where t.kind = 'capture' and starts_with(e.account_id, 'merchant_pending:')), 0) as received,
           coalesce(sum(e.debit - e.credit) filter (where starts_with(e.account_id, 'auth_hold:')), 0) as capturable,
           coalesce(sum(e.credit - e.debit) filter (where starts_with(e.account_id, 'merchant_pending:')), 0) as pending,
           coalesce(sum(e.credit - e.debit) filter (where t.kind in ('refund_succeeded', 'refund_failed_later')
                                                      and starts_with(e.account_id, 'processor_receivable:')), 0) as refunded
    from ledger_txn t join ledger_entry e using (txn_id)
    where not starts_with(t.aggregate_key, 'jr_') and not starts_with(t.aggregate_key, 'ma_')
    group by t.aggregate_key
),
refunds as (
    select intent_id as id, coalesce(sum(amount) filter (where state = 'succeeded'), 0) as refunded,
           sum(amount) filter (where state <> 'canceled') as tried
    from refund group by intent_id
),
disputes as (
    select intent_id as id,
           coalesce(sum(amount) filter (where state in ('needs_response', 'under_review', 'appeal_needs_response',
                                                        'appeal_under_review', 'lost')
               or (state in ('warning_needs_response', 'warning_under_review') and funds = 'withdrawn')), 0) as disputed,
           coalesce(sum(amount) filter (where funds = 'reinstated' and state in ('appeal_needs_response',
                                                                                 'appeal_under_review', 'lost')), 0) as back,
           sum(amount) as heard_of
    from dispute group by intent_id
)
select id, i.state, i.amount_received, p.received, i.amount_capturable, p.capturable, i.amount_pending, p.pending,
       i.amount_refunded, p.refunded as refunds_posted, r.refunded as refunds_succeeded, i.amount_disputed, d.disputed
from payment_intent i
full join posted p using (id)
full join refunds r using (id)
full join disputes d using (id)
where i.id is null
   or i.amount_received <> coalesce(p.received, 0)
   or i.amount_capturable <> coalesce(p.capturable, 0)
   or i.amount_pending <> coalesce(p.pending, 0)
   or i.amount_refunded <> coalesce(p.refunded, 0)
   or i.amount_refunded <> coalesce(r.refunded, 0)
   -- a loss whose money came back counted until an earlier release heard of the dispute again
   or i.amount_disputed not in (coalesce(d.disputed, 0), coalesce(d.disputed - d.back, 0))
   or (i.state = 'succeeded' and i.amount_received = 0)
   -- money of a canceled payment is on its way back, or was tried and is a case for people
   or (i.state = 'canceled' and i.amount_received > coalesce(r.tried, 0) + coalesce(d.heard_of, 0))
   or (i.state = 'requires_capture' and i.amount_capturable = 0)
   or (i.state = 'succeeded' and i.amount_capturable > 0)
   -- a hold that was heard of after the cancel is being released, or its release was tried
   or (i.state = 'canceled' and i.amount_capturable > 0 and not exists (
       select from processor_attempt v where v.intent_id = i.id and v.kind = 'void'))

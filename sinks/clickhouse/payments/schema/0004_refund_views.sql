-- What an analyst asks about refunds and disputes: how often, how much, and how they end.

-- The newest version of every refund.
create or replace view refunds_current as
select * from refunds order by id, version desc limit 1 by id;

-- The newest version of every dispute.
create or replace view disputes_current as
select * from disputes order by id, version desc limit 1 by id;

-- Refunds per merchant, currency and day on which the payment was created, of the payments that received money.
-- refund_rate is of payments (one with several refunds counts once), refunded_share of money.
create or replace view refund_rate_daily as
select
    merchant_id, currency, day, payments_received, payments_refunded, refunds, refunds_succeeded, refunds_failed,
    payments_refunded / payments_received as refund_rate,
    received_minor,
    refunded_minor,
    refunded_minor / received_minor as refunded_share,
    toDecimal128(refunded_minor, 4) / intExp10(exponent) as refunded
from (
    select
        i.merchant_id as merchant_id,
        i.currency as currency,
        toDate(i.created_at) as day,
        count() as payments_received,
        countIf(r.succeeded > 0) as payments_refunded,
        sum(r.refunds) as refunds,
        sum(r.succeeded) as refunds_succeeded,
        sum(r.failed) as refunds_failed,
        sum(i.amount_received) as received_minor,
        sum(i.amount_refunded) as refunded_minor,
        any(i.currency_exponent) as exponent
    from payment_intents_current as i
    left join (
        select payment_intent, count() as refunds, countIf(state = 'succeeded') as succeeded,
               countIf(state = 'failed') as failed
        from refunds_current group by payment_intent
    ) as r on r.payment_intent = i.id
    where i.amount_received > 0
    group by merchant_id, currency, day
);

-- Disputes per merchant, currency and day on which the payment was created, of the payments that received money.
-- A mere inquiry is no dispute. win_rate is of the disputes that were decided; null while there is none.
create or replace view dispute_rate_daily as
select
    merchant_id, currency, day, payments_received, payments_disputed, disputes, disputes_won, disputes_lost, inquiries,
    payments_disputed / payments_received as dispute_rate,
    if(disputes_won + disputes_lost = 0, null, disputes_won / (disputes_won + disputes_lost)) as win_rate,
    disputed_minor,
    toDecimal128(disputed_minor, 4) / intExp10(exponent) as disputed
from (
    select
        i.merchant_id as merchant_id,
        i.currency as currency,
        toDate(i.created_at) as day,
        count() as payments_received,
        countIf(d.disputes > 0) as payments_disputed,
        sum(d.disputes) as disputes,
        sum(d.won) as disputes_won,
        sum(d.lost) as disputes_lost,
        sum(d.inquiries) as inquiries,
        sum(d.disputed_minor) as disputed_minor,
        any(i.currency_exponent) as exponent
    from payment_intents_current as i
    left join (
        select payment_intent,
               countIf(not startsWith(state, 'warning_')) as disputes,
               countIf(state = 'won') as won,
               countIf(state = 'lost') as lost,
               countIf(startsWith(state, 'warning_')) as inquiries,
               sumIf(amount, not startsWith(state, 'warning_')) as disputed_minor
        from disputes_current group by payment_intent
    ) as d on d.payment_intent = i.id
    where i.amount_received > 0
    group by merchant_id, currency, day
);

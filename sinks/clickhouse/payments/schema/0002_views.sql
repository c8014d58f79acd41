-- What an analyst asks first. Minor units are exact integers; the decimal beside them uses the currency's own exponent.

-- The newest version of every intent.
create or replace view payment_intents_current as
select * from payment_intents order by id, version desc limit 1 by id;

-- The newest state of every attempt.
create or replace view processor_attempts_current as
select * from processor_attempts order by intent_id, attempt, version desc limit 1 by intent_id, attempt;

-- Volume and success rate per merchant, currency and hour in which the intent was created.
-- success_rate is of the intents that were tried at a processor and came to an end: succeeded, or last refused.
create or replace view payment_volume_hourly as
select
    merchant_id, currency, hour, intents, intents_succeeded, intents_refused, intents_canceled, intents_open,
    if(intents_succeeded + intents_refused = 0, null,
       intents_succeeded / (intents_succeeded + intents_refused)) as success_rate,
    requested_minor,
    received_minor,
    toDecimal128(received_minor, 4) / intExp10(exponent) as received
from (
    select
        merchant_id,
        currency,
        toStartOfHour(created_at) as hour,
        count() as intents,
        countIf(state = 'succeeded') as intents_succeeded,
        countIf(state = 'requires_payment_method' and last_payment_error is not null) as intents_refused,
        countIf(state = 'canceled') as intents_canceled,
        countIf(state in ('processing', 'requires_capture')) as intents_open,
        sum(amount) as requested_minor,
        sum(amount_received) as received_minor,
        any(currency_exponent) as exponent
    from payment_intents_current
    group by merchant_id, currency, hour
);

-- Fees per merchant, currency and day: what the platform took from the merchant, what the processor took from the platform.
create or replace view fees_daily as
select
    merchant_id, currency, day,
    platform_fee_minor,
    toDecimal128(platform_fee_minor, 4) / intExp10(exponent) as platform_fee,
    processor_fee_minor,
    toDecimal128(processor_fee_minor, 4) / intExp10(exponent) as processor_fee
from (
    select
        merchant_id,
        currency,
        toDate(effective_at) as day,
        sumIf(credit - debit, account_kind = 'platform_fee_income') as platform_fee_minor,
        sumIf(debit - credit, account_kind = 'processor_fee_expense') as processor_fee_minor,
        any(currency_exponent) as exponent
    from ledger_lines
    where account_kind in ('platform_fee_income', 'processor_fee_expense')
    group by merchant_id, currency, day
);

-- Money that is held on cards and not yet captured or released, oldest first.
create or replace view open_authorizations as
select
    id as payment_intent, merchant_id, currency,
    amount_capturable as held_minor,
    toDecimal128(amount_capturable, 4) / intExp10(currency_exponent) as held,
    processor, state, updated_at as held_since
from payment_intents_current
where amount_capturable > 0
order by held_since, payment_intent;

-- Movements and closing balance of every account on every day on which it moved; balance is debits minus credits.
create or replace view account_balances_daily as
select
    account_id, currency, day, debit_minor, credit_minor, balance_minor,
    toDecimal128(balance_minor, 4) / intExp10(exponent) as balance
from (
    select *, sum(debit_minor - credit_minor) over (partition by account_id order by day) as balance_minor
    from (
        select account_id, currency, toDate(effective_at) as day, sum(debit) as debit_minor, sum(credit) as credit_minor,
               any(currency_exponent) as exponent
        from ledger_lines
        group by account_id, currency, day
    )
);

-- What an analyst asks about merchants' money: what moved, what was held, and what was paid out.

-- The newest version of every payout.
create or replace view payouts_current as
select * from payouts order by id, version desc limit 1 by id;

-- The newest version of every merchant's account.
create or replace view merchant_accounts_current as
select * from merchant_accounts order by id, version desc limit 1 by id;

-- Every line on a merchant's accounts, each once; amount_minor above zero is in the merchant's favour.
create or replace view merchant_activity as
select
    effective_at, txn_id, line, splitByChar(':', account_id)[2] as merchant,
    substring(splitByChar(':', account_id)[1], 10) as account,
    currency, kind, reference,
    toInt64(credit) - toInt64(debit) as amount_minor,
    toDecimal128(toInt64(credit) - toInt64(debit), 4) / intExp10(currency_exponent) as amount
from (
    select * from ledger_lines where startsWith(account_id, 'merchant_') limit 1 by txn_id, line
);

-- Per merchant, account, currency and day: what was held before and after, and what moved; closing is the sum of all days.
create or replace view merchant_balance_daily as
select
    merchant, account, currency, day, credits_minor, debits_minor,
    closing_minor - credits_minor + debits_minor as opening_minor,
    sum(credits_minor - debits_minor) over (
        partition by merchant, account, currency order by day rows between unbounded preceding and current row
    ) as closing_minor
from (
    select merchant, account, currency, toDate(effective_at) as day,
           sumIf(amount_minor, amount_minor > 0) as credits_minor,
           -sumIf(amount_minor, amount_minor < 0) as debits_minor
    from merchant_activity group by merchant, account, currency, day
);

-- Payouts per merchant, currency and day on which they were asked for.
create or replace view payouts_daily as
select
    merchant_id, currency, day, payouts, paid, failed, canceled, asked_minor, paid_minor,
    toDecimal128(paid_minor, 4) / intExp10(exponent) as paid_amount
from (
    select
        merchant_id, currency, toDate(created_at) as day, count() as payouts,
        countIf(state = 'paid') as paid, countIf(state = 'failed') as failed, countIf(state = 'canceled') as canceled,
        sum(amount) as asked_minor, sumIf(amount, state = 'paid') as paid_minor, any(currency_exponent) as exponent
    from payouts_current group by merchant_id, currency, day
);

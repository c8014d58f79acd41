-- id: fees
-- title: Of every capture the platform took the fee of the terms that were in force when its payment was made
-- severity: critical
-- owner: ledger
-- source: postgres
-- As dataflows/payments/domain/policies/fees.py decides it: basis points rounded half up and a fixed part, never above the capture;
-- before anything was published, the first line of FeeSchedule.
with published as (
    select version, body::jsonb as document from policy_version where kind = 'fees'
),
taken as (
    select t.reference, t.aggregate_key as intent_id, e.currency,
           sum(e.credit) filter (where starts_with(e.account_id, 'merchant_pending:')) as captured,
           coalesce(sum(e.credit) filter (where starts_with(e.account_id, 'platform_fee_income:')), 0) as fee
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind = 'capture'
    group by t.reference, t.aggregate_key, e.currency
),
due as (
    select k.*, i.merchant_id, v.version,
           least(k.captured, div(k.captured * coalesce((v.terms ->> 'bps')::bigint, 150) + 5000, 10000)
                             + coalesce((v.terms -> 'fixed' ->> k.currency)::bigint, 0)) as due
    from taken k
    join payment_intent i on i.id = k.intent_id
    left join lateral (
        select p.version, coalesce(p.document -> 'merchants' -> i.merchant_id, p.document -> 'default') as terms
        from published p where (p.document ->> 'effective_at')::timestamptz <= i.created_at
        order by p.version desc limit 1
    ) v on true
)
select reference, intent_id, merchant_id, currency, captured, fee, due, version from due where fee <> due

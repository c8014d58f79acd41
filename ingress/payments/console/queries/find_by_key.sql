-- The search, when no id was found: an idempotency key of any scope, or of one ("scope/key"). One probe of the primary key
-- for each scope that ever sent a command, up to a bound that the page tells.
with recursive scope (name, n) as (
    (select i.merchant_id, 1 from idempotency i order by i.merchant_id limit 1)
    union all
    select (select i.merchant_id from idempotency i where i.merchant_id > s.name order by i.merchant_id limit 1), s.n + 1
    from scope s where s.name is not null and s.n < %(scopes)s::int
), asked (name) as (
    select %(scope)s::text where %(scope)s::text is not null
    union all
    select s.name from scope s where %(scope)s::text is null and s.name is not null
)
select 'command' as kind, i.key as id, i.aggregate_key, i.merchant_id as owner, i.operation || ', ' || i.status as note
from asked a join idempotency i on i.merchant_id = a.name and i.key = %(key)s::text
limit %(limit)s::int

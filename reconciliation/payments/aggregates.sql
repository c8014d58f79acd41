-- name: aggregate_version
-- Primary keys.
select version from payment_intent where id = %(aggregate_key)s
union all select version from payout where id = %(aggregate_key)s
union all select version from merchant_account where id = %(aggregate_key)s;

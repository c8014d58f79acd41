-- What owners decide by. Each names its index.

-- name: policies_active
-- The active version of every kind. policy_version_active.
select kind, version, body from policy_version where state = 'active';

-- name: fees_after
-- Versions of the fees that are not known yet, oldest first. Primary key.
select version, body from policy_version where kind = 'fees' and version > %s order by version;

-- name: merchants_frozen
-- Merchants who may begin nothing new. merchant_account_frozen.
select merchant_id from frozen_merchant;

-- name: merchants_still_frozen
-- Of these merchants, who may begin nothing new at this moment. merchant_account_frozen.
select merchant_id from frozen_merchant where merchant_id = any (%s::text[]);

-- name: processors_health
-- How every processor was when the workers told it last; a decision judges how old that is. A row for each processor.
select processor, (extract(epoch from as_of) * 1000000)::bigint, breaker, succeeded, declined, failed, unknown
from processor_health;

-- name: merchant_frozen
-- A dry run: whether this merchant may begin something. merchant_account_frozen.
select 1 from merchant_account where merchant_id = %s and state = 'frozen';

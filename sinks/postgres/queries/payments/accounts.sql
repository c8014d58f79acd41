-- The owner's statements about merchants' accounts. Rows come and go in sets; each names its index.

-- name: accounts_read
-- The accounts of a batch. Primary key.
select id, merchant_id, state, frozen_reason, version, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint, partition
from merchant_account where id = any (%s::text[]);

-- name: payouts_read
-- The payouts that the batch names. Primary key.
select id, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from updated_at) * 1000000)::bigint
from payout where id = any (%s::text[]);

-- name: held_read
-- What ledger accounts hold over all partitions, in the transaction that decides. Primary key prefix.
select account_id, sum(credits - debits)::text from account_balance where account_id = any (%s::text[]) group by account_id;

-- name: approved_read
-- What two persons approved, of the commands by hand in a batch. Primary key.
select id, operation, payload from money_proposal where id = any (%s::text[]) and state = 'approved';

-- name: accounts_insert
-- Accounts that came into being. An id that exists fails the batch. Primary key.
insert into merchant_account (id, merchant_id, state, frozen_reason, version, partition, created_at, updated_at)
select t.id, t.merchant_id, t.state, nullif(t.frozen_reason, ''), t.version, %s,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
         as t (id, merchant_id, state, frozen_reason, version, created_at, updated_at);

-- name: accounts_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update merchant_account a
    set state = t.state, frozen_reason = nullif(t.frozen_reason, ''), version = t.version,
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
             as t (id, read_version, state, frozen_reason, version, updated_at)
    where a.id = t.id and a.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: payouts_insert
-- Payouts that the batch made. Their account's compare-and-set guards them, as it guards all its parts. Primary key.
insert into payout (id, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata, version,
                    created_at, updated_at)
select t.id, t.account_id, t.merchant_id, t.amount, t.currency, t.state, t.destination, nullif(t.failure_reason, ''),
       t.metadata, t.version, timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::bigint[], %s::bigint[], %s::bigint[])
         as t (id, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata, version,
               created_at, updated_at);

-- name: payouts_update
-- What a command or a fact may change of a payout. Primary key.
with written as (
    update payout p
    set state = t.state, failure_reason = nullif(t.failure_reason, ''), version = t.version,
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
             as t (id, state, failure_reason, version, updated_at)
    where p.id = t.id
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: destinations_read
-- All destinations of these accounts, bounded by PAYOUT_DESTINATIONS_MAX for each. Served by payout_destination_of_account.
select {{read PayoutDestination d}} from payout_destination d where d.account_id = any (%s::text[]);

-- name: destinations_insert
-- Destinations that the batch made, with their numbers. Their account's compare-and-set guards them. Primary key.
insert into payout_destination (account_number, {{names PayoutDestination insert}})
select t.account_number, {{values PayoutDestination insert}}
from unnest(%s::text[], {{arrays PayoutDestination insert}}) as t (account_number, {{names PayoutDestination insert}});

-- name: destinations_update
-- What a command may change of a destination. Primary key.
with written as (
    update payout_destination d
    set {{sets PayoutDestination update}}
    from unnest({{arrays PayoutDestination update}}) as t ({{names PayoutDestination update}})
    where d.id = t.id
    returning 1
)
select 1 / (count(*) = %s)::int from written;

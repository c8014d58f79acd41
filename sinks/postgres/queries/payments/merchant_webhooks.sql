-- The statements of the sender of webhooks to merchants (dataflows/payments/merchant_webhooks/store.py).

-- name: endpoints_of
-- With every batch: who wants events of these merchants. Index merchant_webhook_endpoint_age.
select id, merchant_id, events, (extract(epoch from created_at) * 1000000)::bigint
from merchant_webhook_endpoint
where merchant_id = any(%(merchants)s::text[]) and state in ('unverified', 'active');

-- name: deliveries_plan
-- With the position, in one transaction. The primary key (endpoint, event) makes a repetition harmless.
insert into merchant_webhook_delivery (id, endpoint_id, event_id, aggregate_key, seq, operation, body)
select p.id, p.endpoint_id, p.event_id, p.aggregate_key, p.seq, p.operation, p.body
from unnest(%(ids)s::text[], %(endpoints)s::text[], %(events)s::text[], %(aggregates)s::text[], %(seqs)s::bigint[],
        %(operations)s::text[], %(bodies)s::bytea[])
    as p (id, endpoint_id, event_id, aggregate_key, seq, operation, body)
on conflict (endpoint_id, event_id) do nothing;

-- name: deliveries_claim
-- Every round: what is due, a few for each endpoint, the first one of each object only. Merchants take turns: the one with
-- the fewest sends under way comes first, and none has more than its share, however many slow endpoints it has. Locked
-- is only what is taken; what another sender took since is left out. What is claimed is due again when its lease is over,
-- so a sender that is killed loses nothing. It begins at endpoints for which something waits, one step of an index for each
-- of them, whatever number of endpoints there is. What a merchant would be told that is not let in waits until it is again.
-- Indexes merchant_webhook_delivery_due and _order; primary key of access_denied.
with recursive earliest as (
    (select endpoint_id, next_at from merchant_webhook_delivery
     where state = 'waiting' order by endpoint_id, next_at limit 1)
    union all
    select n.endpoint_id, n.next_at
    from earliest p
    cross join lateral (
        select endpoint_id, next_at from merchant_webhook_delivery
        where state = 'waiting' and endpoint_id > p.endpoint_id order by endpoint_id, next_at limit 1
    ) n
), waiting as (
    select d.id, d.next_at,
           coalesce(u.sends, 0) + row_number() over (partition by e.merchant_id order by d.next_at, d.id) as turn
    from earliest
    join merchant_webhook_endpoint e on e.id = earliest.endpoint_id
    left join unnest(%(merchants)s::text[], %(sends)s::int[]) as u (merchant_id, sends) using (merchant_id)
    cross join lateral (
        select w.id, w.next_at
        from merchant_webhook_delivery w
        where w.endpoint_id = e.id and w.state = 'waiting' and w.next_at <= now()
          and (w.resent or not exists (
              select 1 from merchant_webhook_delivery b
              where b.endpoint_id = w.endpoint_id and b.aggregate_key = w.aggregate_key and b.seq < w.seq
                and b.state = 'waiting' and not b.resent))
        order by w.next_at
        limit %(endpoint_max)s
    ) d
    where earliest.next_at <= now() and e.state in ('unverified', 'active') and e.id <> all(%(busy)s::text[])
      and coalesce(u.sends, 0) < %(merchant_max)s
      and not exists (select 1 from access_denied a
                      where a.kind = 'merchant' and a.name = e.merchant_id and a.issued_before is null)
), chosen as (
    select id from waiting where turn <= %(merchant_max)s order by turn, next_at limit %(count)s
), due as (
    select w.id from merchant_webhook_delivery w
    where w.id in (select id from chosen) and w.state = 'waiting' and w.next_at <= now()
    for update skip locked
)
update merchant_webhook_delivery d
set tries = d.tries + 1, first_try_at = coalesce(d.first_try_at, now()),
    next_at = now() + %(lease_s)s * interval '1 second', in_flight_until = now() + %(lease_s)s * interval '1 second'
from due, merchant_webhook_endpoint e
where d.id = due.id and e.id = d.endpoint_id
returning d.id, d.endpoint_id, e.merchant_id, d.event_id, d.tries, d.body, e.url;

-- name: secrets_of
-- Before a send: the secrets that sign, the newest first, and the time that is signed. A secret signs until a while after
-- the next one was made.
select id, key_id, wrapped_key, ciphertext, extract(epoch from now())::bigint
from (
    select id, key_id, wrapped_key, ciphertext, created_at, lead(created_at) over (order by created_at, id) as replaced_at
    from merchant_webhook_secret where endpoint_id = %(endpoint)s
) s
where (replaced_at is null or replaced_at > now() - %(overlap_s)s * interval '1 second') and ciphertext is not null
order by created_at desc;

-- name: secrets_to_seal
-- At the start and every minute: what is not under the newest key, text from before sealing first. Index
-- merchant_webhook_secret_key.
select id, endpoint_id, secret, key_id, wrapped_key, ciphertext
from merchant_webhook_secret
where key_id is distinct from %(newest)s and id > %(after)s
order by id limit %(count)s
for update skip locked;

-- name: secrets_seal
-- With secrets_to_seal, in one transaction. Primary key.
update merchant_webhook_secret s
set secret = null, key_id = n.key_id, wrapped_key = n.wrapped_key, ciphertext = n.ciphertext
from unnest(%(ids)s::text[], %(key_ids)s::text[], %(wrapped_keys)s::bytea[], %(ciphertexts)s::bytea[])
    as n (id, key_id, wrapped_key, ciphertext)
where s.id = n.id;

-- name: delivered
-- After a 2xx. A delivery that was claimed again meanwhile, or is finished, stays as it is.
with marked as (
    update merchant_webhook_delivery
    set state = 'delivered', finished_at = now(), in_flight_until = null, last_status = %(status)s, last_error = null
    where id = %(id)s and tries = %(tries)s and state = 'waiting'
    returning endpoint_id, aggregate_key, seq
), verified as (
    update merchant_webhook_endpoint e
    set state = 'active', verified_at = coalesce(e.verified_at, now()), last_success_at = now()
    from marked m
    where e.id = m.endpoint_id and e.state in ('unverified', 'active')
      and (e.state = 'unverified' or e.last_success_at is null or e.last_success_at < now() - interval '1 second')
)
select endpoint_id, aggregate_key, seq, now() from marked;

-- name: deliveries_follow
-- After a try that was not the first, or failed: what waits behind it is looked at when it is due itself. Without this,
-- everything behind an endpoint that is out would be looked at in every round. Index merchant_webhook_delivery_order.
update merchant_webhook_delivery
set next_at = %(next_at)s::timestamptz
where endpoint_id = %(endpoint)s and aggregate_key = %(aggregate)s and seq > %(seq)s and state = 'waiting'
  and not resent and tries = 0;

-- name: failed
-- After anything else: due again after a wait, or given up when there is no further try.
update merchant_webhook_delivery
set state = case when %(wait_s)s::float8 is null then 'given_up' else 'waiting' end,
    finished_at = case when %(wait_s)s::float8 is null then now() end,
    next_at = now() + coalesce(%(wait_s)s::float8, 0) * interval '1 second',
    in_flight_until = null, last_status = %(status)s, last_error = %(error)s
where id = %(id)s and tries = %(tries)s and state = 'waiting'
returning endpoint_id, aggregate_key, seq, next_at, first_try_at;

-- name: endpoint_disable
-- With failed, in one transaction: unless the endpoint took another delivery since the first try of this one.
update merchant_webhook_endpoint
set state = 'disabled', disabled_reason = %(reason)s
where id = %(endpoint)s and state in ('unverified', 'active')
  and (%(always)s or last_success_at is null or last_success_at < %(since)s::timestamptz)
returning id;

-- name: deliveries_give_up
-- With endpoint_disable: nothing of a disabled endpoint waits; a person may send it again.
update merchant_webhook_delivery
set state = 'given_up', finished_at = now(), last_error = 'endpoint_disabled'
where endpoint_id = %(endpoint)s and state = 'waiting';

-- name: prune
-- Every minute, again in the next round while it finds a full batch: old finished deliveries. Index
-- merchant_webhook_delivery_old.
delete from merchant_webhook_delivery where id in (
    select id from merchant_webhook_delivery
    where state <> 'waiting' and finished_at < now() - %(kept_s)s * interval '1 second'
    order by finished_at limit %(count)s
    for update skip locked)
returning 1;

-- name: secrets_prune
-- Every minute: secrets that sign no more.
delete from merchant_webhook_secret where id in (
    select id from (
        select id, lead(created_at) over (partition by endpoint_id order by created_at, id) as replaced_at
        from merchant_webhook_secret) s
    where replaced_at < now() - %(overlap_s)s * interval '1 second');

-- name: orphans_end
-- Every minute: what was planned while its endpoint was being deleted.
update merchant_webhook_delivery d
set state = 'given_up', finished_at = now(), last_error = 'endpoint_deleted'
from merchant_webhook_endpoint e
where e.id = d.endpoint_id and e.state = 'deleted' and d.state = 'waiting';

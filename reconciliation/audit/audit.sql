-- The audit log, for the operator's role, which may read it and append through its function only.

-- name: append
-- log.append.
select audit_append(%(actor)s, %(action)s, %(object)s, %(outcome)s, %(details)s::jsonb);

-- name: page
-- `millrace audit list`: the newest, oldest of them first. Primary key, backwards.
select * from (
    select a.seq, a.at, a.actor, a.db_role, a.action, a.object, a.outcome, a.details
    from audit_log a
    where (%(actor)s::text is null or a.actor = %(actor)s) and (%(object)s::text is null or a.object = %(object)s)
    order by a.seq desc limit %(limit)s
) newest order by seq;

-- name: chain
-- `millrace audit verify`: every row in its order, as text exactly as it was hashed.
select a.seq, (extract(epoch from a.at) * 1000000)::bigint, a.actor, a.db_role, a.action, a.object, a.outcome,
       a.details::text, a.prev_hash, a.hash
from audit_log a order by a.seq;

-- name: head
-- `millrace audit verify`: where the chain ends, kept apart from it.
select h.seq, h.hash from audit_head h;

-- name: signatures
-- `millrace audit signatures`: who signed the commands that were decided on an aggregate. Index idempotency_of_aggregate,
-- primary keys.
select i.operation, i.merchant_id, i.key as idempotency_key, i.status, i.event_id, s.id as signed_request, s.received_at,
       s.key_id, k.public_key, k.revoked_at, s.base, s.signature, s.body
from idempotency i
join signed_command c on c.merchant_id = i.merchant_id and c.idempotency_key = i.key and c.request_hash = i.request_hash
join signed_request s on s.id = c.signed_request_id
join merchant_signing_key k on k.id = s.key_id
where i.aggregate_key = %(id)s
order by i.created_at, i."offset" limit %(limit)s;

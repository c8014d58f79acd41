-- What the vault reads and writes, as the role millrace_vault. Each names its index.

-- name: keys_all
-- vault/keyring.py and vault/rotation.py: every key that ever was, few rows.
select key_id, purpose, state, check_value from vault.key order by key_id;

-- name: key_register
-- vault/keyring.py, on a vault's very first start. Two that start at once register the same key; one of another file
-- is refused by key_active, and then told apart by its check value.
insert into vault.key (key_id, purpose, state, check_value)
values (%(key_id)s, %(purpose)s, 'active', %(check_value)s)
on conflict do nothing;

-- name: signing_keys_of
-- ingress/identity/known_keys.py, for calls that change something: as the ingress asks it. Primary key, and merchant_signing_key_age.
select w.n, coalesce(r.requirement, 'optional'), k.id, k.public_key
from unnest(%(ns)s::int[], %(merchants)s::text[]) as w (n, merchant_id)
left join merchant_signature_requirement r on r.merchant_id = w.merchant_id
left join merchant_signing_key k on k.merchant_id = w.merchant_id and k.revoked_at is null;

-- name: access_denials
-- ingress/identity/denials.py, once a second: the time, the version, and all rows when it is not the known one. Primary keys.
select extract(epoch from clock_timestamp())::float8, v.version, d.kind, d.name, extract(epoch from d.issued_before)::float8
from access_denied_version v
left join access_denied d on v.version <> %(known)s and (d.ends_at is null or d.ends_at > clock_timestamp());

-- name: suspicious_access
-- vault/audit.py: a finding about who asks for what, as the ingress keeps its own; one open case for each kind and subject.
select suspicious_access(%(id)s, %(kind)s, %(subject)s, %(details)s::jsonb);

-- name: card_insert
-- vault/cards.py: request, card and their row of the audit log together, once. (fenced, claimed) = (0, 0) the key is not the active one any more;
-- (1, 0) the caller's key was used before; (1, 1) stored. The share lock makes a rotation wait for this commit.
with fence as materialized (
    select key_id from vault.key where key_id = %(key_id)s and state = 'active' for share
), claimed as (
    insert into vault.token_request (merchant_id, key_digest, request_digest, token_id)
    select %(merchant)s::text, %(key_digest)s::bytea, %(request_digest)s::bytea, %(id)s::text from fence
    on conflict (merchant_id, key_digest) do nothing
    returning token_id
), stored as (
    insert into vault.card (id, merchant_id, network, last4, fingerprint, key_id, wrapped_key, ciphertext)
    select token_id, %(merchant)s::text, %(network)s::text, %(last4)s::text, %(fingerprint)s::text, %(key_id)s::text,
           %(wrapped_key)s::bytea, %(ciphertext)s::bytea
    from claimed
    returning id
), logged as (
    select audit_append(%(actor)s, 'token.create', id, 'done', %(details)s::jsonb) from stored
)
select (select count(*) from fence), (select count(*) from logged);

-- name: request_find
-- vault/cards.py: what a caller's key made before. Primary key.
select request_digest, token_id from vault.token_request where merchant_id = %(merchant)s and key_digest = %(key_digest)s;

-- name: card_find
-- vault/cards.py: one card of its own merchant. Primary key.
select fingerprint, key_id, wrapped_key, ciphertext from vault.card
where id = %(id)s and merchant_id = %(merchant)s and deleted_at is null;

-- name: card_reveal
-- vault/cards.py: the same for a call to a processor, with its row of the audit log: no card leaves before that is durable. Primary key.
with found as (
    select id, fingerprint, key_id, wrapped_key, ciphertext from vault.card
    where id = %(id)s and merchant_id = %(merchant)s and deleted_at is null
), logged as (
    select audit_append(%(actor)s, 'card.reveal', id, 'done', %(details)s::jsonb) as seq from found
)
select fingerprint, key_id, wrapped_key, ciphertext from found where (select count(*) from logged) = 1;

-- name: card_shred
-- vault/cards.py: nothing of the card is left but that it was. One row for a card that is gone now or was before.
with shredded as (
    update vault.card
    set fingerprint = null, key_id = null, wrapped_key = null, ciphertext = null, deleted_at = now()
    where id = %(id)s and merchant_id = %(merchant)s and deleted_at is null
    returning id
), forgotten as (
    update vault.token_request r set request_digest = null from shredded s where r.token_id = s.id
), logged as (
    select audit_append(%(actor)s, 'token.delete', id, 'done', %(details)s::jsonb) from shredded
)
select c.id, (select count(*) from logged) from vault.card c where c.id = %(id)s and c.merchant_id = %(merchant)s;

-- name: audit_append
-- vault/audit.py: what was refused.
select audit_append(%(actor)s, %(action)s, %(object)s, %(outcome)s, %(details)s::jsonb);

-- name: rotation_lock
-- vault/rotation.py: one rotation at a time, on whatever machine; the end of the session gives it back.
select pg_try_advisory_lock(x'7661756c'::int);

-- name: rotation_retire_active
-- vault/rotation.py: from this commit on no card is sealed with the keys before.
update vault.key set state = 'retiring' where purpose = 'wrap' and state = 'active';

-- name: rotation_cards
-- vault/rotation.py: the next step's cards. Index card_of_key. Locked: a deletion at the same time waits or is waited for.
select id, merchant_id, wrapped_key, ciphertext from vault.card
where key_id = %(key_id)s and id > %(after)s order by id limit %(limit)s for update;

-- name: rotation_rewrap
-- vault/rotation.py: the step's cards under their new key.
update vault.card c set key_id = %(key_id)s, wrapped_key = t.wrapped_key
from unnest(%(ids)s::text[], %(wrapped_keys)s::bytea[]) as t (id, wrapped_key) where c.id = t.id;

-- name: rotation_left
-- vault/rotation.py: how many cards still need a key. Index card_of_key.
select count(*) from vault.card where key_id = %(key_id)s;

-- name: rotation_retired
-- vault/rotation.py: the key is needed no more; nothing happens while a card needs it.
update vault.key set state = 'retired', retired_at = now()
where key_id = %(key_id)s and state = 'retiring' and not exists (select from vault.card c where c.key_id = %(key_id)s);

-- name: cards_by_key
-- 'millrace vault status'. Index card_of_key.
select k.key_id, k.state, k.created_at, k.retired_at, (select count(*) from vault.card c where c.key_id = k.key_id)
from vault.key k where k.purpose = 'wrap' order by k.key_id;

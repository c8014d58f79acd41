-- The card vault. Only the role millrace_vault reads what is in here; to everybody else there is the view token_public.
-- Card numbers are ciphertext before they reach Postgres: no statement, log line or dump of it holds one.
create schema vault;

-- Which keys there are, by id; the keys themselves are in the vault's key file. The state decides, under a row lock,
-- which key seals: a process that still holds an older one cannot insert with it once it is retiring.
create table vault.key (
    key_id      text collate "C" primary key,
    purpose     text collate "C" not null check (purpose in ('wrap', 'mac')),
    state       text collate "C" not null check (state in ('active', 'retiring', 'retired')),
    check_value bytea not null,                     -- HMAC under the key: tells another key of the same id
    created_at  timestamptz not null default now(),
    retired_at  timestamptz
);
create unique index key_active on vault.key (purpose) where state = 'active';

create table vault.card (
    id          text collate "C" primary key,       -- tok_ and 24 random base32 characters
    merchant_id text collate "C" not null,
    network     text collate "C" not null,
    last4       text collate "C" not null check (last4 ~ '^[0-9]{4}$'),
    fingerprint text collate "C",                   -- HMAC over merchant and number
    key_id      text collate "C" references vault.key (key_id),
    wrapped_key bytea,                              -- the data key, sealed by key_id
    ciphertext  bytea,                              -- number and expiry, sealed by the data key
    created_at  timestamptz not null default now(),
    deleted_at  timestamptz,
    -- A deleted card is shredded: no key, no ciphertext, nothing to compare.
    check ((deleted_at is null) = (wrapped_key is not null) and (deleted_at is null) = (ciphertext is not null)
           and (deleted_at is null) = (key_id is not null) and (deleted_at is null) = (fingerprint is not null))
) with (fillfactor = 80);
create index card_of_key on vault.card (key_id, id);  -- a rotation's steps

-- What a retry of POST /v1/tokens is answered. Keyed digests only: neither the card nor the caller's key is in here.
create table vault.token_request (
    merchant_id    text collate "C" not null,
    key_digest     bytea not null,
    request_digest bytea,                           -- null once the card is deleted
    token_id       text collate "C" not null unique,
    created_at     timestamptz not null default now(),
    primary key (merchant_id, key_digest)
);

-- Whose a token is, for who must know. It runs with its creator's rights: its readers have none on the table.
create view vault.token_public with (security_barrier) as
    select id, merchant_id, network, last4 from vault.card where deleted_at is null;

revoke all on schema vault from public;
grant usage on schema vault to millrace_vault, millrace_ingress, millrace_reader;
grant select, insert on vault.key, vault.card, vault.token_request to millrace_vault;
grant update (state, retired_at) on vault.key to millrace_vault;
grant update (fingerprint, key_id, wrapped_key, ciphertext, deleted_at) on vault.card to millrace_vault;
grant update (request_digest) on vault.token_request to millrace_vault;
grant select on vault.token_public to millrace_ingress, millrace_reader;

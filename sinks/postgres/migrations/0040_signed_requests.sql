-- Signed requests (RFC 9421): merchants' public keys, what they require of their own callers, and the evidence of who asked
-- for what. Keys and requirement change through the functions below only, each change with its audit row in one transaction.

create table merchant_signing_key (
    id          text collate "C" primary key,        -- msk_..., derived from merchant and key: registered twice, it is one
    merchant_id text collate "C" not null,
    public_key  bytea not null check (octet_length(public_key) = 32),  -- Ed25519
    description text,
    created_by  text collate "C" not null,           -- a token's subject
    created_at  timestamptz not null default clock_timestamp(),
    revoked_by  text collate "C",
    revoked_at  timestamptz,
    constraint merchant_signing_key_revoked check ((revoked_by is null) = (revoked_at is null))
);
create index merchant_signing_key_age on merchant_signing_key (merchant_id, created_at, id);

-- A merchant without a row: optional.
create table merchant_signature_requirement (
    merchant_id text collate "C" primary key,
    requirement text collate "C" not null check (requirement in ('off', 'optional', 'required')),
    changed_by  text collate "C" not null,
    changed_at  timestamptz not null default clock_timestamp()
);

-- The evidence: with the public key, base and signature prove to anybody who asked for what; the base names the digest of
-- the body. Written before the command is sent; the same request sent again is the same row.
create table signed_request (
    id          text collate "C" primary key,        -- sr_..., of merchant, base and signature
    merchant_id text collate "C" not null,
    key_id      text collate "C" not null references merchant_signing_key,
    base        bytea not null,
    signature   bytea not null,
    body        bytea not null,
    received_at timestamptz not null default clock_timestamp()
);
-- Of which identity: a signed list has many commands. With the request's hash, for under one key two requests may have come
-- of which one was decided.
create table signed_command (
    merchant_id       text collate "C" not null,
    idempotency_key   text collate "C" not null,
    request_hash      bytea not null,
    signed_request_id text collate "C" not null references signed_request,
    primary key (merchant_id, idempotency_key, request_hash)
);

create function signing_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'evidence is kept as it is: % on % is refused', tg_op, tg_table_name using errcode = 'LE001';
end $$;
create trigger signed_request_immutable before update or delete or truncate on signed_request
    for each statement execute function signing_refuse_change();
create trigger signed_command_immutable before update or delete or truncate on signed_command
    for each statement execute function signing_refuse_change();

-- A key is revoked once; nothing else of it ever changes, because it has to verify what was signed with it.
create function signing_keep_key() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or old.revoked_at is not null
       or (new.id, new.merchant_id, new.public_key, new.description, new.created_by, new.created_at)
          is distinct from (old.id, old.merchant_id, old.public_key, old.description, old.created_by, old.created_at) then
        raise exception 'a signing key is only ever revoked: % is refused', tg_op using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger merchant_signing_key_kept before update or delete on merchant_signing_key
    for each row execute function signing_keep_key();
create trigger merchant_signing_key_whole before truncate on merchant_signing_key
    for each statement execute function signing_refuse_change();

-- Keys beget keys: while a merchant has an active one, only what an active one signed (or an operator) changes anything
-- here. So a stolen token alone brings no key of its own in. Null: it may go on; the merchant is locked until the end.
create function signing_may_change(p_merchant text, p_signed_by text, p_operator boolean) returns text
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:signing:' || p_merchant, 0));
    if p_operator or not exists (select 1 from merchant_signing_key where merchant_id = p_merchant and revoked_at is null) then
        return null;
    end if;
    if p_signed_by is null then
        return 'signature_required';
    end if;
    if not exists (select 1 from merchant_signing_key
                   where id = p_signed_by and merchant_id = p_merchant and revoked_at is null) then
        return 'signature_invalid';  -- revoked a moment ago
    end if;
    return null;
end $$;

-- Each of the following answers with a word: what became of it. p_evidence names the signed request, if it was one.
create function signing_key_register(p_id text, p_merchant text, p_public_key bytea, p_description text, p_actor text,
                                     p_signed_by text, p_evidence text, p_keys_max integer)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    refusal text := signing_may_change(p_merchant, p_signed_by, false);
    known merchant_signing_key;
begin
    if refusal is not null then
        return refusal;
    end if;
    select * into known from merchant_signing_key where id = p_id;
    if found then
        return case when known.revoked_at is null then 'known' else 'revoked' end;
    end if;
    if (select count(*) from merchant_signing_key where merchant_id = p_merchant and revoked_at is null) >= p_keys_max then
        return 'too_many';
    end if;
    insert into merchant_signing_key (id, merchant_id, public_key, description, created_by)
    values (p_id, p_merchant, p_public_key, p_description, p_actor);
    perform audit_append(p_actor, 'signing_key.register', p_id, 'done',
                         jsonb_build_object('merchant', p_merchant, 'public_key', encode(p_public_key, 'base64'),
                                            'signed_by', p_signed_by, 'signed_request', p_evidence));
    return 'registered';
end $$;

create function signing_key_revoke(p_id text, p_merchant text, p_actor text, p_signed_by text, p_evidence text,
                                   p_operator boolean, p_reason text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    refusal text := signing_may_change(p_merchant, p_signed_by, p_operator);
    known merchant_signing_key;
begin
    if refusal is not null then
        return refusal;
    end if;
    select * into known from merchant_signing_key where id = p_id and merchant_id = p_merchant for update;
    if not found then
        return 'not_found';
    end if;
    if known.revoked_at is not null then
        return 'known';
    end if;
    if not p_operator
       and exists (select 1 from merchant_signature_requirement where merchant_id = p_merchant and requirement = 'required')
       and not exists (select 1 from merchant_signing_key
                       where merchant_id = p_merchant and revoked_at is null and id <> p_id) then
        return 'last_key';
    end if;
    update merchant_signing_key set revoked_by = p_actor, revoked_at = clock_timestamp() where id = p_id;
    perform audit_append(p_actor, 'signing_key.revoke', p_id, 'done',
                         jsonb_build_object('merchant', p_merchant, 'signed_by', p_signed_by, 'signed_request', p_evidence,
                                            'operator', p_operator, 'reason', p_reason));
    return 'revoked';
end $$;

create function signature_requirement_set(p_merchant text, p_requirement text, p_actor text, p_signed_by text,
                                          p_evidence text, p_operator boolean, p_reason text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    refusal text := signing_may_change(p_merchant, p_signed_by, p_operator);
begin
    if refusal is not null then
        return refusal;
    end if;
    if coalesce((select requirement from merchant_signature_requirement where merchant_id = p_merchant), 'optional')
       = p_requirement then
        return 'known';
    end if;
    if p_requirement = 'required'
       and not exists (select 1 from merchant_signing_key where merchant_id = p_merchant and revoked_at is null) then
        return 'no_key';
    end if;
    insert into merchant_signature_requirement (merchant_id, requirement, changed_by)
    values (p_merchant, p_requirement, p_actor)
    on conflict (merchant_id) do update
        set requirement = excluded.requirement, changed_by = excluded.changed_by, changed_at = clock_timestamp();
    perform audit_append(p_actor, 'signature_requirement.set', p_merchant, 'done',
                         jsonb_build_object('requirement', p_requirement, 'signed_by', p_signed_by,
                                            'signed_request', p_evidence, 'operator', p_operator, 'reason', p_reason));
    return 'set';
end $$;

revoke all on function signing_may_change, signing_key_register, signing_key_revoke, signature_requirement_set from public;
grant execute on function signing_key_register, signing_key_revoke, signature_requirement_set to millrace_ingress;
grant select on merchant_signing_key, merchant_signature_requirement to millrace_ingress;
grant select, insert on signed_request, signed_command to millrace_ingress;
grant select on merchant_signing_key, merchant_signature_requirement, signed_request, signed_command
    to millrace_console, millrace_operator, millrace_reader;

-- Hardening: secrets of merchants' endpoints are sealed, approved repairs are finished by a service, old events leave.

-- Who has the database or a copy of it signs nothing: the keys are in a file that only the ingress and the sender read.
-- A secret from before is sealed by the sender when it starts, and its text is then gone.
alter table merchant_webhook_secret
    alter column secret drop not null,
    add column key_id text collate "C",             -- the key that its data key is wrapped with
    add column wrapped_key bytea,
    add column ciphertext bytea,
    add constraint merchant_webhook_secret_is_sealed check (
        (secret is null and key_id is not null and wrapped_key is not null and ciphertext is not null)
        or (secret is not null and key_id is null and wrapped_key is null and ciphertext is null));
create index merchant_webhook_secret_key on merchant_webhook_secret (key_id, id);

-- The ingress can write no text of a secret any more.
revoke insert on merchant_webhook_secret from millrace_ingress;
grant insert (id, endpoint_id, key_id, wrapped_key, ciphertext) on merchant_webhook_secret to millrace_ingress;
grant update (secret, key_id, wrapped_key, ciphertext) on merchant_webhook_secret to millrace_worker;

-- The webhook worker finishes what two persons approved: it reads proposals, and takes over what the owner decided by the
-- function that trusts nothing of its caller.
grant select on repair_proposal to millrace_worker;
grant execute on function repair_settle to millrace_worker;

-- Events of processors leave a good while after they were settled; what became a case stays, as its evidence.
create index provider_event_old on provider_event (settled_at) where state in ('applied', 'superseded');
grant delete on provider_event to millrace_worker;

-- The vault logs what is done and refused there, by the function only: it reads nothing of the log.
grant execute on function audit_append to millrace_vault;

-- A fact that contradicts what is committed opens its case in the owner's commit.
grant insert on repair_case to millrace_owner;

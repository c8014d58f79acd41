-- Support access: grants as their owner keeps them, and a row of every call under one. Who asks is the subject of a token.

create table support_grant (
    tenant_id     text collate "C" not null,
    grant_id      text collate "C" not null,
    partition     integer not null,
    requester     text collate "C" not null,
    reason        text not null,
    ticket        text not null,
    scopes        text not null,                      -- separated by spaces
    duration_s    integer not null,
    state         text collate "C" not null check (state in ('requested', 'approved', 'active', 'denied', 'revoked')),
    needs_consent boolean not null,
    approvers     jsonb not null default '[]',
    consented_by  text collate "C",
    ended_by      text collate "C",
    created_at    timestamptz not null,
    expires_at    timestamptz,
    version       bigint not null,
    primary key (tenant_id, grant_id),
    check ((state = 'active') <= (expires_at is not null)),
    check (not approvers ? requester)
);
create index support_grant_by_id on support_grant using hash (grant_id);

-- Calls under grants, numbered without gap for each tenant. begun = sent to be carried out; its answer is not given before the
-- row says done or refused, so a row that stays begun is of an answer that nobody got.
create table tenant_audit (
    tenant_id text collate "C" not null,
    seq       bigint not null,
    at        timestamptz not null default clock_timestamp(),
    actor     text not null,
    grant_id  text collate "C" not null,
    action    text not null,
    object    text not null,
    result    text collate "C" not null check (result in ('begun', 'done', 'refused')),
    primary key (tenant_id, seq)
);
create index tenant_audit_of_grant on tenant_audit (tenant_id, grant_id, seq);
create table tenant_audit_head (
    tenant_id text collate "C" primary key,
    last_seq  bigint not null
) with (fillfactor = 50);

-- One call begins: its row, in the transaction that sees the grant. No row = there is no such grant; refused = it is not
-- active. The ingress has this door and no other.
create function tenant_audit_begin(of_tenant text, of_grant text, who text, what text, named text)
returns table (number bigint, word text)
language sql security definer set search_path = pg_catalog, public as $$
    with held as (
        select g.state = 'active' and g.expires_at > clock_timestamp() as is_active
        from support_grant g where g.tenant_id = of_tenant and g.grant_id = of_grant and g.requester = who),
    head as (
        insert into tenant_audit_head as h (tenant_id, last_seq) select of_tenant, 1 from held
        on conflict (tenant_id) do update set last_seq = h.last_seq + 1
        returning last_seq)
    insert into tenant_audit (tenant_id, seq, actor, grant_id, action, object, result)
    select of_tenant, head.last_seq, who, of_grant, what, named, case when held.is_active then 'begun' else 'refused' end
    from held, head
    returning seq, result
$$;

-- And ends: once, from begun.
create function tenant_audit_end(of_tenant text, number bigint, word text) returns boolean
language sql security definer set search_path = pg_catalog, public as $$
    update tenant_audit set result = word
    where tenant_id = of_tenant and seq = number and result = 'begun' and word in ('done', 'refused')
    returning true
$$;

revoke all on function tenant_audit_begin(text, text, text, text, text), tenant_audit_end(text, bigint, text) from public;
grant execute on function tenant_audit_begin(text, text, text, text, text), tenant_audit_end(text, bigint, text) to millrace_ingress;
grant select, insert on support_grant to millrace_tenancy_owner;
grant update (state, approvers, consented_by, ended_by, expires_at, version) on support_grant to millrace_tenancy_owner;
grant select on support_grant, tenant_audit to millrace_ingress, millrace_operator, millrace_reader;
grant select on tenant_audit_head to millrace_operator, millrace_reader;

-- Moves of tenants between placements. The lock on the tenant's row orders them with its writes.
create table tenant_migration (
    tenant_id          text collate "C" not null,
    migration_id       text collate "C" not null,
    state              text collate "C" not null check (state in ('planned', 'prepared', 'copying', 'catching_up', 'verifying', 'fencing',
        'committed', 'soaking', 'completed', 'aborting', 'aborted', 'rolling_back', 'rolled_back')),
    source             text collate "C" not null,
    target             text collate "C" not null,
    from_generation    bigint not null,
    to_generation      bigint,
    rows_per_second    bigint not null,
    fenced             boolean not null default false,  -- no write of the tenant is taken
    fence_until        bigint,                          -- then a fence that is not committed is given up
    closing            boolean not null default false,  -- the other side is being emptied: no more images for it
    soaks_until        bigint,
    copied_after       text collate "C" not null default '',
    rows_copied        bigint not null default 0,
    rows_verified      bigint not null default 0,
    mismatches         bigint not null default 0,
    dual_match         bigint not null default 0,
    dual_target_behind bigint not null default 0,
    dual_missing       bigint not null default 0,
    dual_diff          bigint not null default 0,
    dual_target_ahead  bigint not null default 0,
    reason             text,
    version            bigint not null,
    created_at         bigint not null,
    updated_at         bigint not null,
    primary key (tenant_id, migration_id)
);
create unique index tenant_migration_one_open on tenant_migration (tenant_id)
    where state not in ('completed', 'aborted', 'rolled_back');

grant select, insert, update on tenant_migration to millrace_tenancy_owner;
grant select, update on tenant_migration to millrace_tenancy_mover;
grant select on tenant_migration to millrace_ingress, millrace_operator, millrace_reader;

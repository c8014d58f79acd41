-- What is left of tenants: exports, sealed with the tenant's key, and certificates of what was destroyed.
create table tenant_export (
    tenant_id  text collate "C" not null,
    export_id  text collate "C" not null,
    state      text collate "C" not null check (state in ('running', 'ready')),
    resources  bigint not null,
    sha256     text collate "C",
    created_at bigint not null,
    primary key (tenant_id, export_id)
);
create index tenant_export_running on tenant_export (created_at) where state = 'running';
create table tenant_export_part (
    tenant_id text collate "C" not null,
    export_id text collate "C" not null,
    part      integer not null,
    sealed    bytea not null,
    primary key (tenant_id, export_id, part)
);
create table tenant_certificate (
    tenant_id      text collate "C" not null,
    certificate_id text collate "C" not null,
    document       text not null,                -- as it was signed, byte for byte
    jws            text not null,
    primary key (tenant_id, certificate_id)
);

grant insert on tenant_export to millrace_tenancy_owner;
grant select on tenant_export, tenant_export_part, tenant_certificate to millrace_ingress, millrace_operator, millrace_tenancy_mover;
grant update, delete on tenant_export to millrace_tenancy_mover;
grant insert, delete on tenant_export_part to millrace_tenancy_mover;
grant insert on tenant_certificate to millrace_tenancy_mover;
create index tenant_key_uncertified on tenant_key (destroyed_at) where state = 'destroyed' and certificate_id is null;

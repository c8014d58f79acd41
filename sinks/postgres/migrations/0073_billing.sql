-- Billing of tenants: a run fixes the period and the prices, its invoice is made once. Neither is ever changed.

create table billing_run (
    tenant_id      text collate "C" not null,
    number         bigint not null,                   -- 1, 2, 3 ... of its tenant
    billing_run_id text collate "C" not null,
    invoice_id     text collate "C" not null,
    partition      integer not null,
    period_from    timestamptz not null,
    period_to      timestamptz not null,
    grace_s        integer not null check (grace_s >= 0),
    currency       text collate "C" not null,
    prices         jsonb not null,
    created_at     timestamptz not null,
    primary key (tenant_id, number),
    unique (tenant_id, billing_run_id),
    check (period_from < period_to)
);
create index billing_run_by_id on billing_run using hash (billing_run_id);

-- An invoice holds what was counted up to its cut: of each partition of counted usage, the last place. What comes later for
-- its period is a late line of the next one, from the cut of the one before on.
create table tenant_invoice (
    tenant_id  text collate "C" not null,
    ordinal    bigint not null,                       -- in the order in which they were made
    invoice_id text collate "C" not null,
    run_number bigint not null,
    cut        bigint[] not null,
    document   bytea not null,
    created_at timestamptz not null default now(),
    primary key (tenant_id, ordinal),
    unique (tenant_id, run_number),
    foreign key (tenant_id, run_number) references billing_run
);
create index tenant_invoice_by_id on tenant_invoice using hash (invoice_id);

grant select, insert on billing_run to millrace_tenancy_owner;
grant select on billing_run, tenant_invoice to millrace_tenancy_metering;
grant insert on tenant_invoice to millrace_tenancy_metering;
grant select on billing_run, tenant_invoice to millrace_ingress, millrace_operator, millrace_reader;

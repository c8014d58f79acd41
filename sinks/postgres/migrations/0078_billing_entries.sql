-- Money of tenants beside what is metered: corrections of usage that was billed, and credit. Each is in the next invoice;
-- an invoice that stands never changes. What a tenant may is an entitlement.

create table billing_entry (
    tenant_id   text collate "C" not null,
    number      bigint not null,                      -- 1, 2, 3 ... of its tenant: invoices are cut by it
    entry_id    text collate "C" not null,
    partition   integer not null,
    kind        text collate "C" not null check (kind in ('adjustment', 'credit')),
    dimension   text collate "C",
    quantity    bigint,                               -- of an adjustment: more or less than was metered
    unit_price  text collate "C",
    at          timestamptz,                          -- what it is about was used then
    period_from timestamptz,                          -- in this period, which was billed; null = in none yet
    period_to   timestamptz,
    amount      bigint,                               -- of a credit: minor units
    reason      text not null,
    created_at  timestamptz not null,
    primary key (tenant_id, number),
    unique (tenant_id, entry_id),
    check (case kind when 'credit' then amount > 0
                     else quantity <> 0 and unit_price is not null and dimension is not null and at is not null end)
);

-- An invoice takes the entries behind those of the one before, up to this one, and leaves credit to the next.
alter table tenant_invoice add column entries bigint not null default 0;
alter table tenant_invoice add column credit_left bigint not null default 0 check (credit_left >= 0);

-- What a tenant may: replaced as a whole, one row each.
create table tenant_entitlement (
    tenant_id    text collate "C" primary key,
    partition    integer not null,
    entitlements jsonb not null,
    version      bigint not null,
    updated_at   timestamptz not null
);

grant select, insert on billing_entry to millrace_tenancy_owner;
grant select, insert on tenant_entitlement to millrace_tenancy_owner;
grant update (entitlements, version, updated_at) on tenant_entitlement to millrace_tenancy_owner;
grant select on billing_entry to millrace_tenancy_metering;
grant select on billing_entry, tenant_entitlement to millrace_ingress, millrace_operator, millrace_reader;

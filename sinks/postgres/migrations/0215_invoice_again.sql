-- Invoices that are made again by the metering, as it took an ingress too long: asked for by an ingress, and told for an hour.
create table invoice_again (
    tenant_id  text collate "C" not null,
    invoice_id text collate "C" not null,
    asked_at   timestamptz not null default now(),
    made_at    timestamptz,
    document   bytea,
    primary key (tenant_id, invoice_id)
);
comment on table invoice_again is 'Invoices that were made again in the background, to be compared with what stands';
comment on column invoice_again.tenant_id is 'whose';
comment on column invoice_again.invoice_id is 'which';
comment on column invoice_again.asked_at is 'when it was asked for last';
comment on column invoice_again.made_at is 'when it was made; null = it is waited for';
comment on column invoice_again.document is 'its bytes, of the last time';
grant select, insert (tenant_id, invoice_id), update (asked_at, made_at) on invoice_again to millrace_ingress;
grant select, update (made_at, document) on invoice_again to millrace_tenancy_metering;
grant select on invoice_again to millrace_operator, millrace_reader;

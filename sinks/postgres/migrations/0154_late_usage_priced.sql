-- By which rule an invoice prices late usage: 1, at the prices of its own run; 2, at those of the run of the usage's period.
-- Those that stand, and those of a process of before, are made again by rule 1, byte for byte.
alter table tenant_invoice add column late_rule smallint not null default 1 check (late_rule in (1, 2));
comment on column tenant_invoice.late_rule is 'at which prices its late usage is: 1 of its own run, 2 of the run of the old period';
grant insert (late_rule) on tenant_invoice to millrace_tenancy_metering;

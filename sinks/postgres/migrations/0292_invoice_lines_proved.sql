-- By which version of the meter the lines of an invoice were made: from 1 on, a line says it, with a digest of the events that
-- it is of. Those that stand, and those of a process of before, say neither, and are made again without.
alter table tenant_invoice add column meter_version smallint check (meter_version = 1);
comment on column tenant_invoice.meter_version is 'how the usage of its lines was counted, and is proved; null = made before lines said so';
grant insert (meter_version) on tenant_invoice to millrace_tenancy_metering;

-- Of the meter of version 1, what a digest says of one event. It has no search path of its own, so that a query takes it in.
create function usage_event_sha256(tenant_id text, source text, event_id text, dimension text, subject text, quantity bigint,
                                   occurred_at timestamptz) returns text
language sql stable
return encode(sha256(convert_to(concat_ws(chr(31), tenant_id, source, event_id, dimension, coalesce(subject, ''), quantity,
                                          (extract(epoch from occurred_at) * 1000000)::bigint), 'UTF8')), 'hex');
comment on function usage_event_sha256 is 'SHA-256 of all that a counted event says, as hex digits';

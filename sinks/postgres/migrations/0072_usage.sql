-- Usage of tenants: every event that counts, once; what contradicts one that counted; and how far each stream is counted.

create table usage_event (
    tenant_id   text collate "C" not null,
    source      text collate "C" not null,
    event_id    text collate "C" not null,
    dimension   text collate "C" not null,
    quantity    bigint not null check (quantity between 0 and 9007199254740991),
    subject     text collate "C",
    occurred_at timestamptz not null,
    partition   integer not null,                     -- its place: ClickHouse is fed, and invoices are cut, by it
    seq         bigint not null,
    primary key (tenant_id, source, event_id)
);
create index usage_event_time on usage_event (tenant_id, dimension, occurred_at);
create index usage_event_place on usage_event (partition, seq);

-- Gapless: up to last_seq all is committed. Its row is held while a batch is counted.
create table usage_counted (
    partition integer primary key,
    last_seq  bigint not null default 0
) with (fillfactor = 50);

-- An identity that was used again for something else: the first event stays.
create table usage_conflict (
    tenant_id   text collate "C" not null,
    source      text collate "C" not null,
    event_id    text collate "C" not null,
    dimension   text collate "C" not null,
    quantity    bigint not null,
    subject     text collate "C",
    occurred_at timestamptz not null,
    digest      bytea not null,                       -- of these four
    conflict_id text collate "C" not null,
    seen_at     timestamptz not null default now(),
    primary key (tenant_id, source, event_id, digest)
);
create index usage_conflict_page on usage_conflict (tenant_id, seen_at, conflict_id);

-- Who meters counts, and changes nothing that was counted.
grant select, insert on usage_event, usage_conflict to millrace_tenancy_metering;
grant select, insert, update on usage_counted, stream_position to millrace_tenancy_metering;
grant select on usage_event, usage_counted to millrace_sink;
grant select on usage_event, usage_counted, usage_conflict to millrace_ingress, millrace_operator, millrace_reader;

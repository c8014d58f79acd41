-- After a rotation all that lies under older keys of a tenant is sealed anew, in the background. A key is closed first: nothing
-- that is sealed under it is written any more. It is retired when nothing lies under it: it still opens what is in stored answers
-- and in Kafka, and makes the hashes of retries.
alter table tenant_key
    add column closed_at bigint,
    add column retired_at bigint,
    add constraint tenant_key_retired_is_closed check (retired_at is null or closed_at is not null);
comment on column tenant_key.closed_at is 'from then on nothing is written that is sealed under it';
comment on column tenant_key.retired_at is 'when nothing was left that is sealed under it';
create index tenant_key_unretired on tenant_key (tenant_id) where state = 'decrypt_only' and retired_at is null;

create table tenant_reseal (
    tenant_id   text collate "C" primary key,
    key_version bigint not null,                 -- under which all is sealed afterwards
    after       text collate "C" not null default '',
    looked_at   bigint not null default 0,
    resealed    bigint not null default 0,
    begun_at    bigint not null,
    updated_at  bigint not null,
    finished_at bigint
);
comment on table tenant_reseal is 'How far a tenant''s rows are sealed anew, behind the last rotation of its key';
comment on column tenant_reseal.tenant_id is 'whose';
comment on column tenant_reseal.key_version is 'the key under which all is sealed afterwards';
comment on column tenant_reseal.after is 'the rows up to that id are';
comment on column tenant_reseal.looked_at is 'how many rows were looked at';
comment on column tenant_reseal.resealed is 'how many rows and parts of exports were sealed anew';
comment on column tenant_reseal.begun_at is 'when it began, in microseconds';
comment on column tenant_reseal.updated_at is 'when it went on last';
comment on column tenant_reseal.finished_at is 'when nothing was left under older keys';

grant select, insert, update, delete on tenant_reseal to millrace_tenancy_mover;
grant update on tenant_export_part to millrace_tenancy_mover;
grant select on tenant_reseal to millrace_ingress, millrace_operator, millrace_console, millrace_reader;

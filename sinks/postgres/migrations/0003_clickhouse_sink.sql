-- The ClickHouse sink's memory: who may write, where it stands, and what it is about to insert.
-- Everything here is written before the effect that it describes; ClickHouse itself is a projection.

-- Who may feed a sink. A holder renews heartbeat_at; a claimant takes over when it is stale or released, and then
-- epoch rises: every statement of the old holder names the old epoch and changes nothing.
create table sink_fence (
    sink         text collate "C" primary key,
    epoch        bigint not null default 0,
    owner_id     text not null default '',           -- '' = released
    heartbeat_at timestamptz not null default '-infinity',
    requested_by text not null default '',           -- who asks the holder to let go (a swap of shadow and live)
    requested_at timestamptz not null default '-infinity'
) with (fillfactor = 50);

-- What ClickHouse holds: every event up to last_seq, read from Kafka up to (not including) next_offset.
create table sink_position (
    sink        text collate "C" not null references sink_fence,
    topic       text collate "C" not null,
    partition   integer not null,
    next_offset bigint not null check (next_offset >= 0),
    last_seq    bigint not null check (last_seq >= 0),
    epoch       bigint not null,
    updated_at  timestamptz not null default now(),
    primary key (sink, topic, partition)
) with (fillfactor = 50);

-- One block per table that is about to be inserted, or was. sha256 covers the records as they lie in Kafka, in order;
-- token makes ClickHouse drop a second insert of the same block.
create table sink_plan (
    sink        text collate "C" not null references sink_fence,
    plan_id     bigint not null,
    epoch       bigint not null,
    token       text not null,
    sha256      bytea not null check (length(sha256) = 32),
    rows        jsonb not null,                       -- table -> number of rows
    state       text collate "C" not null check (state in ('planned', 'inserted')),
    planned_at  timestamptz not null default now(),
    inserted_at timestamptz,
    primary key (sink, plan_id),
    check ((inserted_at is not null) = (state = 'inserted'))
) with (fillfactor = 70);
-- At most one plan is open: a second one before the first is inserted would be a bug, and is refused here.
create unique index sink_plan_open on sink_plan (sink) where state = 'planned';
create table sink_plan_range (
    sink         text collate "C" not null,
    plan_id      bigint not null,
    topic        text collate "C" not null,
    partition    integer not null,
    first_offset bigint not null,
    last_offset  bigint not null,
    first_seq    bigint not null,
    last_seq     bigint not null,
    primary key (sink, plan_id, topic, partition),
    foreign key (sink, plan_id) references sink_plan on delete cascade,
    check (first_offset >= 0 and last_offset >= first_offset),
    check (first_seq > 0 and last_seq >= first_seq and last_offset - first_offset >= last_seq - first_seq)
);

insert into sink_fence (sink) values ('clickhouse');

grant select on sink_fence, sink_position, sink_plan, sink_plan_range to millrace_sink, millrace_operator, millrace_reader;
grant insert, update on sink_position, sink_plan to millrace_sink, millrace_operator;
grant insert on sink_plan_range to millrace_sink, millrace_operator;
grant update on sink_fence to millrace_sink, millrace_operator;
grant delete on sink_plan, sink_plan_range to millrace_sink, millrace_operator;  -- inserted plans past the kept number

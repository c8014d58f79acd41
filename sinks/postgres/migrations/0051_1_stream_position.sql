-- How far every follower of a topic has got: one row for each of its partitions, whoever the follower is.
-- epoch rises when a process takes the partition, and every write of a position names it: one that was replaced and wakes
-- up changes nothing. Everything up to last_seq is done; next_offset lies behind it, never behind a record that was not read.
create table stream_position (
    follower    text collate "C" not null,
    topic       text collate "C" not null,          -- without the prefix of the installation
    partition   integer not null,
    epoch       bigint not null default 0,
    holder      text not null default '',           -- the process that took it last
    next_offset bigint not null check (next_offset >= 0),
    last_seq    bigint not null check (last_seq >= -1),  -- -1 = not known: the first event found there is taken
    topic_id    text not null default '',           -- Kafka's, of the topic that was read; '' = not seen yet
    updated_at  timestamptz not null default now(),
    primary key (follower, topic, partition)
) with (fillfactor = 50);

grant select, insert, update on stream_position to millrace_worker;
grant select on stream_position to millrace_operator, millrace_reader, millrace_console;

-- An owner compares its position with the topic that it reads, and its clock with what was decided before it.
-- Every column is empty in a database of an earlier version; the first owner of a partition fills it.
alter table partition_owner
    add column topic_id    text collate "C",          -- Kafka's id of the topic that was read; null until it was first taken
    add column offset_base bigint not null default 0, -- next_offset less Kafka's offset: not 0 once an operator let it go on elsewhere
    add column leader_epoch integer,                  -- of the leader that took the command before read_offset: a log that lost its
    add column read_offset bigint,                    -- end and grew again has that offset, too, and from a later leader
    add column decided_at  timestamptz;               -- the time of the newest decision; time never goes back in a partition
grant update (topic_id, offset_base, read_offset) on partition_owner to millrace_operator;

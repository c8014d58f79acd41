-- Who follows records without seqs knows by the record before its position that the log is the one that it read: one that
-- lost its end and grew over it has another record there, of a later leader. Empty until a position is moved.
alter table stream_position
    add column leader_epoch integer,     -- of the leader that took the record before read_offset; null = not known
    add column read_offset bigint;       -- next_offset, when leader_epoch was stored
grant update (leader_epoch, read_offset) on stream_position to millrace_tenancy_metering;

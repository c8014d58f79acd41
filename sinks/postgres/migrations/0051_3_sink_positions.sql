-- The sinks of ClickHouse keep their positions where every follower does. Their plans and fences stay as they are: a
-- position advances with its plan, in the transaction that renews the fence.
insert into stream_position (follower, topic, partition, epoch, next_offset, last_seq, updated_at)
select sink, topic, partition, epoch, next_offset, last_seq, updated_at from sink_position;
-- A sink of the release before must not insert from a position that nobody advances any more: without its table it stops.
drop table sink_position;
grant select, insert, update on stream_position to millrace_sink;
grant insert, update on stream_position to millrace_operator;  -- a swap completes the open plan

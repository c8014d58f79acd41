-- Of two processes that follow a stream of records one stands by: while the other says now and then that it is there.
alter table stream_position
    add column held_at timestamptz;      -- said of one partition of a follower, for all of them; null = nobody says so

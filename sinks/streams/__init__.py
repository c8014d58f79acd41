"""Following a topic of events: in order, each event once, from a position in Postgres; never past what is not read."""

-- The newest round of the monitor: one row. Primary key.
select as_of, probes from isolation_round where only_one

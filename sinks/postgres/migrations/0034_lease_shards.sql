-- Leases are settled at the shard that granted them.
grant select on limiter_shard_map to millrace_leases;

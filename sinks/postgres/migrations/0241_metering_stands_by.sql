-- Who counts usage says so, for those that stand by; the column of 0216 came after its rights were cut to columns (0106).
grant update (held_at) on stream_position to millrace_tenancy_metering;

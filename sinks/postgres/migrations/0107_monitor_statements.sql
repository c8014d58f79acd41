-- The isolation monitor sees which statements others run: their text, with places in place of values.
grant pg_read_all_stats to millrace_tenancy_monitor;

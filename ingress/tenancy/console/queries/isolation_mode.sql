-- Whether safe mode is on, and who would lift it: one row. Primary key.
select is_on, since, probe, evidence, proposed_by from isolation_safe_mode where only_one

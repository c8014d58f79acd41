-- Whether Postgres answers, and has these tables.
select exists (select from media_access)

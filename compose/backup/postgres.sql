-- A base backup of Postgres whose files are copied by us (take.py). As a superuser, in one session.

-- name: log_kept
-- Its log is kept from here on, until this session ends.
select pg_create_physical_replication_slot('millrace_backup', true, true);

-- name: backup_start
-- From here on every page is logged whole that changes first. The file of the log that the copy needs first, or the one
-- before it.
select pg_walfile_name(pg_backup_start('millrace', true));

-- name: log_newest
-- The file of the log that is written to.
select pg_walfile_name(pg_current_wal_insert_lsn());

-- name: backup_stop
-- What was logged from the first of the files to the last makes a whole of the copied files.
select b.lsn::text, b.labelfile, b.spcmapfile, pg_walfile_name(pg_current_wal_insert_lsn())
from pg_backup_stop(false) b;

-- Whether nothing of a medium is kept any more. Primary key.
select scan_state in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted') from media where media_id = %(media_id)s::text

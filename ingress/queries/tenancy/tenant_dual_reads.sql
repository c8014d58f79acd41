-- What reads of both sides of a move found. Primary key.
select tenant_dual_reads(%(tenant_id)s::text, %(migration_id)s::text, %(match)s::bigint, %(target_behind)s::bigint,
                         %(missing)s::bigint, %(diff)s::bigint, %(target_ahead)s::bigint)

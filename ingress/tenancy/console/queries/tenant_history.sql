-- What of a tenant was changed, newest first. Primary key, from the right.
select version, timestamptz 'epoch' + at * interval '1 microsecond' as at, made_by, person, operation, changed from tenant_history
where tenant_id = %(tenant)s order by version desc limit %(limit)s

-- One part of an export, sealed. Primary key.
select sealed from tenant_export_part
where tenant_id = %(tenant_id)s::text and export_id = %(export_id)s::text and part = %(part)s::int

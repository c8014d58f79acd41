-- Which version these resources have now. Primary key.
select resource_id, version from resource_head where tenant_id = %(tenant_id)s::text and resource_id = any (%(ids)s::text[])

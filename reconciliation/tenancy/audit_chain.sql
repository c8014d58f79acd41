-- The chain of a tenant's audit log, for `millrace tenants audit`, which recomputes it outside of the database.

-- name: head
-- Where it ends, kept apart from it. Primary key.
select h.last_link, h.last_hash, h.last_seq from tenant_audit_head h where h.tenant_id = %(tenant_id)s;

-- name: links
-- Every link in its order. Primary key of the log, sorted.
select l.link, l.seq, (extract(epoch from l.at) * 1000000)::bigint, l.fields, l.hash
from tenant_audit_link l where l.tenant_id = %(tenant_id)s order by l.link;

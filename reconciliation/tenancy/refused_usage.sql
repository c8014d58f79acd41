-- name: refused_usage_page
-- What does not count of the topic of usage, newest first; with every_state decided ones too. A bounded table.
select refused_id, refused_at, reason, sender, said_tenant, state, is_whole, bytes, partition, "offset"
from usage_refused
where (%(every_state)s or state in ('open', 'asked')) and (%(tenant)s = '' or said_tenant = %(tenant)s)
order by refused_at desc, refused_id limit %(limit)s;

-- name: refused_usage_read
-- One of them, with what is kept of it. Primary key.
select refused_id, state, reason, sender, said_tenant, partition, "offset", appended_at, refused_at, bytes, is_whole, said,
       fields, decided_at, decided_by, note
from usage_refused where refused_id = %(refused_id)s;

-- name: refused_usage_decide
-- A person's decision about one, once, audited there. Primary key.
select usage_refused_decide(%(refused_id)s, %(decision)s, %(person)s, %(note)s);

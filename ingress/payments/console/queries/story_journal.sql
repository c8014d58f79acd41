-- The journal entry of a story: a ledger transaction that belongs to no payment. Primary key.
select j.id, j.reference, j.kind, j.note, j.scope, j.partition, j.created_at from journal_entry j where j.id = %(id)s

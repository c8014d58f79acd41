-- A finding about who asks for what: audited, with one open case for each kind and subject.
select suspicious_access(%(id)s, %(kind)s, %(subject)s, %(details)s::jsonb)

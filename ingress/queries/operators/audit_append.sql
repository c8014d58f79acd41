-- One row at the end of the audit log: who did what to which object, and what came of it.
select audit_append(%(actor)s, %(action)s, %(object)s, %(outcome)s, %(details)s::jsonb)

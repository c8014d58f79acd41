-- An operator's decision, in one transaction with its row of the audit log. Primary keys.
select access_lift(%(kind)s, %(name)s, %(reason)s, %(actor)s)

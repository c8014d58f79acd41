-- An operator's decision, in one transaction with its row of the audit log. Primary keys.
select access_deny(%(kind)s, %(name)s, %(so_far)s, %(reason)s, %(actor)s, %(rows_max)s, make_interval(secs => %(token_life_s)s))

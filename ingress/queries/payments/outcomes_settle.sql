-- After the owner's decision: the outcome is recorded or refused, its case resolved or open again.
select attempt_outcome_settle(%(id)s)

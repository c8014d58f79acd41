-- After the owner's decision: the proposal is posted or refused, its case resolved or open again.
select repair_settle(%(id)s)

-- After the owner's decision: it is done or refused.
select money_settle(%(id)s)

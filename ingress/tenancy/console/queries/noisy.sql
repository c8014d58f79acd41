-- Callers that had others of their partition wait, or most of the database's time. The primary key; there are few.
select topic, caller, partition, share_percent, units_left, windows, since, seen_at, move_proposed_at
from noisy_caller where topic in (%(topic)s, 'database')
order by seen_at desc limit %(limit)s

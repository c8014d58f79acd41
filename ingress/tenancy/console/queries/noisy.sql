-- Callers that had others of their partition wait. The primary key; there are few.
select caller, partition, share_percent, units_left, windows, since, seen_at, move_proposed_at
from noisy_caller where topic = %(topic)s
order by seen_at desc limit %(limit)s

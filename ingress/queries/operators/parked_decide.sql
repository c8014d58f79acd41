-- The console's decision about a parked command, audited with it. Primary key.
select word, aggregate_key, record
from parked_decide(%(topic)s, %(partition)s, %(offset)s, %(state)s, %(actor)s, %(note)s)

-- One event of ours, as it was published. Primary key.
select o.event_id, o.topic, o.partition, o.seq, o.version, o.occurred_at, o.payload
from outbox o where o.topic = %(events)s and o.partition = %(partition)s and o.seq = %(seq)s and o.event_id = %(id)s

-- One event of a processor, as it came. Primary key.
select e.processor, e.provider_event_id, e.event_type, e.reference, e.state, e.tries, e.next_at, e.note, e.received_at,
       e.settled_at, e.body
from provider_event e where e.processor = %(processor)s and e.provider_event_id = %(id)s

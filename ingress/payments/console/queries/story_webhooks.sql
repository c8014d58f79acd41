-- What processors told about a payment or its parts. Served by provider_event_of.
select e.processor, e.provider_event_id, e.event_type, e.reference, e.state, e.tries, e.note, e.received_at, e.settled_at
from provider_event e where e.reference = any(%(references)s::text[])
order by e.received_at limit %(limit)s

-- What processors told before we know what it is about, longest first: tried again at next_at, in the end a case. Served by
-- provider_event_due, which holds what is not settled only.
select e.processor, e.provider_event_id, e.event_type, e.reference, e.tries, e.note, e.received_at as at, e.next_at
from (select * from provider_event o where o.state in ('stored', 'parked') and o.state = 'parked' limit %(counted)s) e
order by e.received_at limit %(limit)s

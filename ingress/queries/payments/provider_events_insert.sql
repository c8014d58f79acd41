-- Every webhook, before its 2xx: an event is stored once, whatever repeats it. Primary key. Rows come in the order of
-- their identity, so that two ingress processes do not deadlock.
insert into provider_event (processor, provider_event_id, event_type, reference, body)
select w.processor, w.provider_event_id, w.event_type, w.reference, w.body
from unnest(%(processors)s::text[], %(provider_event_ids)s::text[], %(event_types)s::text[], %(references)s::text[],
        %(bodies)s::bytea[])
    as w (processor, provider_event_id, event_type, reference, body)
order by w.processor, w.provider_event_id
on conflict (processor, provider_event_id) do nothing
returning processor, provider_event_id

-- id: 13
-- title: Every event of a processor is applied, superseded or a case, or parked and tried again in time
-- severity: major
-- owner: webhooks
-- source: postgres
-- What was stored is due at once. A worker that is not behind takes it within the grace.
select processor, provider_event_id, event_type, reference, state, tries, received_at, next_at
from provider_event
where (state in ('stored', 'parked')
       and greatest(received_at, next_at) < now() - %(events_grace_s)s * interval '1 second')
   or (settled_at is null) <> (state in ('stored', 'parked'))

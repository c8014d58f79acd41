-- GET /v1/money_proposals, newest first; one of them when its id is given. Served by money_proposal_newest, or the primary key.
select p.id, p.operation, p.object as object_id, p.payload::text as payload, p.author, p.state,
       (extract(epoch from p.proposed_at) * 1000000)::bigint as proposed_at, p.decided_by,
       (extract(epoch from p.decided_at) * 1000000)::bigint as decided_at, p.decision_note, p.event_id, p.refusal,
       (extract(epoch from p.settled_at) * 1000000)::bigint as settled_at
from money_proposal p
where (%(id)s::text is null or p.id = %(id)s::text) and (%(state)s::text is null or p.state = %(state)s::text)
order by p.proposed_at desc, p.id desc
limit %(limit)s

-- id: failovers
-- title: A charge went on at another processor only after the one before was refused for good
-- severity: critical
-- owner: payments
-- source: postgres
-- Captured, it took the money after all, once the later one was refused too: that there is one live charge is invariant 9.
select n.intent_id, n.attempt, n.processor, before.attempt as attempt_before, before.processor as processor_before, before.status
from processor_attempt n
left join lateral (
    select p.attempt, p.processor, p.status from processor_attempt p
    where p.intent_id = n.intent_id and p.attempt < n.attempt and p.kind in ('authorize', 'purchase')
    order by p.attempt desc limit 1
) before on true
where n.route ~ '; failover [0-9]+ after '
  and (before.status is null or before.status not in ('declined', 'failed', 'captured') or before.processor = n.processor)

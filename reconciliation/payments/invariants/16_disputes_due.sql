-- id: disputes_due
-- title: Of a dispute that wants an answer within two days, or wanted one, a case says so
-- severity: major
-- owner: reconciliation
-- source: postgres
-- Sweeps open the case a day earlier. One that persons closed for this deadline is their answer.
select d.id, d.merchant_id, d.processor, d.state, d.amount, d.currency, d.evidence_due_by
from dispute d
where d.state in ('warning_needs_response', 'needs_response', 'appeal_needs_response')
  and d.evidence_state is distinct from 'submitted'
  and d.evidence_due_by < now() + %(dispute_due_days)s * interval '1 day'
  and not exists (select 1 from repair_case c
                  where c.reference = d.id and c.kind = 'dispute_due'
                    and (c.state <> 'resolved' or (c.evidence->>'evidence_due_by')::timestamptz = d.evidence_due_by))

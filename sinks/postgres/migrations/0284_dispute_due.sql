-- Disputes that still want an answer: every sweep of cases looks for those whose deadline is near.
create index dispute_evidence_due on dispute (evidence_due_by)
    where evidence_due_by is not null and evidence_state is distinct from 'submitted'
      and state in ('warning_needs_response', 'needs_response', 'appeal_needs_response');

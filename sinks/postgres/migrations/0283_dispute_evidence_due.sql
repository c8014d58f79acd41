-- By when a processor wants evidence. Of disputes that were open before, nobody knows until it speaks of them again.
alter table dispute add column evidence_due_by timestamptz;

-- Who let a halted partition go on, when and why. Forced recovery is audited (spec 1, section 5).
alter table partition_owner
    add column resumed_at timestamptz,
    add column resumed_by text,
    add column resume_note text;
grant update (halted, resumed_at, resumed_by, resume_note) on partition_owner to millrace_operator;

-- By when a processor wants evidence. A view knows the columns that its table had when it was made, so it is made again.
alter table disputes add column if not exists evidence_due_by Nullable(DateTime64(6, 'UTC'));

create or replace view disputes_current as
select * from disputes order by id, version desc limit 1 by id;

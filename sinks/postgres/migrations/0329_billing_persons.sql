-- In whose name a period was billed, and who of those that act in one name billed it, corrected usage or gave credit: the subject
-- of the token. Of what was said before nobody knows.
alter table billing_run add column made_by text, add column person text;
comment on column billing_run.made_by is 'in whose name it was asked for; null = made before that was kept';
comment on column billing_run.person is 'who asked for it; null = made before that was kept';
alter table billing_entry add column person text;
comment on column billing_entry.person is 'who said it; null = made before that was kept';

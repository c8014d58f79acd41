-- In whose name a correction or a credit was made. Of those of an older owner nobody knows.
alter table billing_entry add column made_by text;
comment on column billing_entry.made_by is 'in whose name it was said; null = made before that was kept';

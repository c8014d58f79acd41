-- Which decision an author is told of: one about itself or a medium of its own it could read nowhere, and appeal against none.
alter table notification add column decision_id text collate "C";
comment on column notification.decision_id is 'Of moderation alone; null of what was told before.';

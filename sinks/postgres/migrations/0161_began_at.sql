-- When a decision and an erasure were written, by the clock of the database: what may still be on its way into a cache is
-- compared with it. By the clock of their owner, which may be behind, it could be believed too early that nothing is.
alter table moderation_propagation add column began_at timestamptz;
alter table moderation_propagation alter column began_at set default clock_timestamp();
alter table erasure add column began_at timestamptz;
alter table erasure alter column began_at set default clock_timestamp();
comment on column moderation_propagation.began_at is 'When it was written, by the database; null of rows of before.';
comment on column erasure.began_at is 'When it was written, by the database; null of rows of before.';

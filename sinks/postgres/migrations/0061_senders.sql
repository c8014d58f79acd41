-- Who sent a command: stored with its result, and from which place on a partition takes signed records only.

alter table idempotency add column sender text collate "C";  -- null: decided by an earlier release

-- Partitions of an earlier release hold unsigned records. Who first owns one again stores where they end; one that is new holds none.
alter table partition_owner add column signed_from bigint;
alter table partition_owner alter column signed_from set default 0;

-- Records whose sender may not say what they say, or that lie where they do not belong: kept, bounded, and never decided.
alter table dead_letter drop constraint dead_letter_state_check;
alter table dead_letter add constraint dead_letter_state_check check (state in ('open', 'retried', 'discarded', 'refused'));
create index dead_letter_refused on dead_letter (topic, partition) where state = 'refused';

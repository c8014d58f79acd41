-- How often a decoder has ended without saying whether its medium or the machine was the reason. Counted apart from tries,
-- which a full disk raises as well: a good medium is never rejected for what the machine did.
alter table media_scan add column crashes integer not null default 0;
comment on column media_scan.crashes is 'Ends of its decoder that the medium or the machine may be the reason of; of so many it is rejected.';

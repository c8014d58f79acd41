-- A store that lost its counters is told what leases spent, as far as their windows still count it.
alter table limit_lease_settlement
    add column shard text collate "C" not null default '',  -- that granted it; '' when its gateway did not say
    add column terms bytea,                                  -- of the policy, as the store reads them
    add column counts_until timestamptz;                     -- null: not worth restoring
create index limit_lease_settlement_restorable on limit_lease_settlement (counts_until) where counts_until is not null;

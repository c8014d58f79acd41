-- Whether the fee that came with a further line, or with a refund's, was looked for in the ledger. Lines that were decided
-- before owners booked such fees have none there; what was looked for once is never looked for again.
alter table settlement_line add column fee_checked boolean not null default false;
-- Not the column "posting": it changes with every line, and an update of what an index names moves the row.
create index settlement_line_fee_unchecked on settlement_line (processor, line_id)
    where not fee_checked and (finding = 'duplicate' or (type = 'refund' and finding is not null))
        and coalesce(posted_fee, fee) <> 0;

-- How often the owner of a ledger transaction was told of it: what an earlier release refused is told anew, once, as
-- another command. A constant default rewrites no row.
alter table settlement_line add column told smallint not null default 1 check (told > 0);

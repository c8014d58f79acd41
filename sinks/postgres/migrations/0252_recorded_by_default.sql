-- When a transaction was recorded is said by the table, so that owners can send many of them by COPY. By the statement, not by the
-- row: where a default differs from row to row COPY writes each row alone. Owners of an earlier release say it themselves.
alter table ledger_txn alter column recorded_at set default statement_timestamp();

-- What policies in shadow mode would have refused. In sums a row of such a policy; its decisions are those of others.
alter table limit_decisions add column if not exists refused_in_shadow Array(LowCardinality(String));
alter table limit_decisions_by_minute add column if not exists refused_in_shadow UInt64;
alter table limit_keys_by_minute add column if not exists refused_in_shadow UInt64;

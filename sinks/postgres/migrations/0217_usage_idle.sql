-- Totals of keys that are idle for long are let go: whoever asks under ever new routes would fill the database. The hour
-- changes once in an hour, so that all other updates of a total touch no index.
alter table limit_usage add column seen_hour timestamptz not null default date_trunc('hour', now());
create index limit_usage_idle on limit_usage (seen_hour);
alter table limit_usage_source add column counted_at timestamptz not null default now();
create index limit_usage_source_counted on limit_usage_source (counted_at);
grant delete on limit_usage, limit_usage_shadow, limit_usage_source to millrace_worker;
grant select, delete on limit_usage_refund to millrace_worker;

-- Decisions of the rate limiter in ClickHouse: the second user of the sink tables, and how far each source is counted.

insert into sink_fence (sink) values ('limiter_decisions');

-- A gateway that was killed sends the end of its ring again: what is below next_number is in ClickHouse already. Moves in
-- the transaction that marks a plan inserted. A source is one process; it is forgotten when its blocks have left Kafka.
create table limit_decision_source (
    source      text collate "C",
    partition   integer,
    next_number bigint not null,
    counted_at  timestamptz not null default now(),
    primary key (source, partition)
) with (fillfactor = 70);
create index limit_decision_source_counted on limit_decision_source (counted_at);
grant select, insert, update, delete on limit_decision_source to millrace_sink;
grant select on limit_decision_source to millrace_operator, millrace_reader;

-- ClickHouse knows a key by its hash only; operators find its name here.
create index limit_usage_by_hash on limit_usage (md5(limit_key));

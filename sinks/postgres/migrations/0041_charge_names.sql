-- What a processor calls a charge of ours, kept for as long as the payment: its disputes may name nothing else, and come
-- when the dispatch row is long gone. Filled by whoever removes that row, in the same statement.
create table charge_name (
    processor    text collate "C" not null,
    provider_ref text collate "C" not null,
    intent_id    text collate "C" not null,
    primary key (processor, provider_ref)
);
grant select, insert on charge_name to millrace_worker;
grant select on charge_name to millrace_reader, millrace_operator, millrace_console;

-- What an ingress answered with 202 and nobody decided yet: GET /v1/operations then says "pending" at every ingress
-- process, to the merchant that asked and to nobody else. Not a queue: the command lies in Kafka.
create table accepted_request (
    merchant_id text collate "C" not null,
    request_id  text collate "C" not null,
    deadline_at timestamptz,                     -- null = none
    accepted_at timestamptz not null default now(),
    primary key (merchant_id, request_id)
);
create index accepted_request_age on accepted_request (accepted_at);
grant select, insert, update, delete on accepted_request to millrace_ingress;
grant select on accepted_request to millrace_reader, millrace_operator;

-- What policies in shadow mode would have refused, by key and policy: exactly once, as the totals of keys.
create table limit_usage_shadow (
    key_digest bytea not null,                       -- as in limit_usage
    policy_id  text collate "C" not null,
    refused    bigint not null,
    as_of      timestamptz not null,                 -- of the newest decision in it
    primary key (key_digest, policy_id)
) with (fillfactor = 70);
grant select on limit_usage_shadow to millrace_ingress, millrace_operator, millrace_reader;
grant select, insert, update on limit_usage_shadow to millrace_worker;

-- The spine: who owns a partition, what was promised to whom, the ledger, the outbox, and the payments aggregate.
-- Tables and fields carry the spec's names. Times are timestamptz, amounts are bigint minor units.
-- Roles exist before this file runs (sinks/postgres/migrate.py); the role that runs it owns everything and serves nothing.

-- Who may write a partition. Kafka decides who should own it; this row decides who may (epoch, next_offset).
create table partition_owner (
    topic         text collate "C" not null,
    partition     integer not null,
    epoch         bigint not null default 0,
    owner_id      text not null default '',
    next_offset   bigint not null default 0,  -- the first command that is not yet committed
    published_seq bigint not null default 0,  -- every event up to here is acknowledged by Kafka
    halted        text,                        -- why nobody may go on: an invariant broke; an operator clears it
    updated_at    timestamptz not null default now(),
    primary key (topic, partition)
) with (fillfactor = 50);

-- One row per command that was decided, in the transaction that decided it. merchant_id is the caller's scope
-- ("processor:<name>" for facts). response is the JSON that a retry gets back, byte for byte.
create table idempotency (
    merchant_id   text collate "C" not null,
    key           text collate "C" not null,
    request_hash  bytea not null,
    response      bytea not null,
    status        text collate "C" not null check (status in ('committed', 'refused')),
    operation     text collate "C" not null,
    request_id    text collate "C" not null,
    aggregate_key text collate "C" not null,
    event_id      text collate "C",              -- null when refused
    partition     integer not null,
    "offset"      bigint not null,
    created_at    timestamptz not null,
    primary key (merchant_id, key),
    check ((event_id is not null) = (status = 'committed'))
);
-- GET /v1/operations/{request_id}. Only ever asked for one id: a hash index costs half of a tree on random ids.
create index idempotency_request on idempotency using hash (request_id);

-- What is published to Kafka, in commit order. seq is 1, 2, 3 ... without gap within (topic, partition).
create table outbox (
    topic         text collate "C" not null,
    partition     integer not null,
    seq           bigint not null,
    event_id      text collate "C" not null,
    aggregate_key text collate "C" not null,
    version       bigint not null,
    scope         text collate "C" not null,
    payload       bytea not null,                -- the record as published: prefixed Avro
    occurred_at   timestamptz not null,
    primary key (topic, partition, seq)
);
create index outbox_scope on outbox (scope, partition, seq);  -- GET /v1/events of one caller

-- Records that could not be carried out, as they came, and the aggregates that refuse work until somebody decides.
create table dead_letter (
    topic         text collate "C" not null,
    partition     integer not null,
    "offset"      bigint not null,
    aggregate_key text collate "C",
    merchant_id   text collate "C",
    request_id    text collate "C",
    reason        text not null,
    record        bytea not null,
    parked_at     timestamptz not null,
    published     boolean not null default false,
    state         text not null default 'open' check (state in ('open', 'retried', 'discarded')),
    resolved_at   timestamptz,
    resolved_by   text,
    primary key (topic, partition, "offset")
);
create index dead_letter_request on dead_letter (request_id);
create table parked_aggregate (
    aggregate_key text collate "C" primary key,
    topic         text collate "C" not null,
    partition     integer not null,
    "offset"      bigint not null,
    reason        text not null,
    parked_at     timestamptz not null
);

create table payment_intent (
    id                  text collate "C" primary key,
    merchant_id         text collate "C" not null,
    amount              bigint not null check (amount > 0),
    currency            text collate "C" not null,
    state               text collate "C" not null,
    version             bigint not null check (version > 0),
    capture_method      text collate "C" not null check (capture_method in ('automatic', 'manual')),
    payment_method      text,
    processor           text collate "C" not null,
    amount_capturable   bigint not null check (amount_capturable >= 0),
    amount_received     bigint not null check (amount_received >= 0),
    amount_refunded     bigint not null check (amount_refunded >= 0),
    amount_disputed     bigint not null check (amount_disputed >= 0),
    last_payment_error  text,
    cancellation_reason text,
    latest_attempt      integer not null check (latest_attempt >= 0),
    metadata            text not null,           -- a JSON object of strings, as given
    partition           integer not null,
    created_at          timestamptz not null,
    updated_at          timestamptz not null
) with (fillfactor = 50);  -- room for one new version of every row: updates stay on their page and touch no index
create index payment_intent_of_merchant on payment_intent (merchant_id, created_at, id);  -- lists, newest first

create table processor_attempt (
    intent_id      text collate "C" not null,
    attempt        integer not null check (attempt > 0),
    kind           text collate "C" not null check (kind in ('authorize', 'purchase', 'capture', 'void')),
    status         text collate "C" not null check (status in ('created', 'pending', 'unknown', 'authorized', 'captured',
                                                    'voided', 'declined', 'failed', 'manual_review')),
    operation_id   text collate "C" not null,    -- derived from (intent_id, attempt), hence unique with them
    processor      text collate "C" not null,
    amount         bigint not null check (amount > 0),
    currency       text collate "C" not null,
    payment_method text not null,
    parent_ref     text,
    final          boolean not null,
    provider_ref   text,
    error_code     text,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    -- Reckoned by the database, so that a change of status that leaves it as it is touches no index.
    live_charge    boolean not null generated always as
        (kind in ('authorize', 'purchase') and status not in ('declined', 'failed', 'voided')) stored,
    primary key (intent_id, attempt)
) with (fillfactor = 50);
-- The double-charge guard (invariant 9): at most one live or successful authorization or purchase of an intent.
create unique index processor_attempt_one_charge on processor_attempt (intent_id) where live_charge;

-- The ledger. Rows never change; a correction is another transaction.
create table ledger_txn (
    txn_id        bigint primary key,            -- partition, offset and number of the command that posted it
    reference     text collate "C" not null unique,  -- a fact posts once, whatever door it came through
    kind          text collate "C" not null,
    aggregate_key text collate "C" not null,
    trace_id      text collate "C" not null,
    partition     integer not null,
    effective_at  timestamptz not null,
    recorded_at   timestamptz not null
);
create table ledger_entry (
    txn_id       bigint not null,
    line         smallint not null,
    account_id   text collate "C" not null,
    debit        bigint not null,
    credit       bigint not null,
    currency     text collate "C" not null,
    effective_at timestamptz not null,
    primary key (txn_id, line),
    constraint ledger_entry_one_sided check (debit >= 0 and credit >= 0 and (debit > 0) <> (credit > 0)),
    constraint ledger_entry_currency check (right(account_id, length(currency) + 1) = ':' || currency)
);
-- Tamper evidence: hash = SHA-256(prev_hash, the rows first_txn..last_txn of the batch), one chain per partition.
create table ledger_chain (
    partition integer not null,
    link      bigint not null,
    first_txn bigint not null,
    last_txn  bigint not null,
    txns      integer not null,
    prev_hash bytea not null,
    hash      bytea not null,
    primary key (partition, link)
);
-- Derived: rebuilt and compared by the check. One row per account and owner partition, so owners never wait for one another.
create table account_balance (
    account_id text collate "C" not null,
    partition  integer not null,
    currency   text collate "C" not null,
    debits     numeric(38, 0) not null,
    credits    numeric(38, 0) not null,
    version    bigint not null,                  -- the number of entries summed up
    primary key (account_id, partition)
) with (fillfactor = 50);

create function ledger_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the ledger is append-only: % on % is refused', tg_op, tg_table_name using errcode = 'LE001';
end $$;
create function ledger_require_balance() returns trigger language plpgsql as $$
begin
    if exists (select 1 from fresh group by txn_id, currency having sum(debit) <> sum(credit)) then
        raise exception 'a ledger transaction does not balance' using errcode = 'LE002';
    end if;
    return null;
end $$;
create trigger ledger_entry_balanced after insert on ledger_entry
    referencing new table as fresh for each statement execute function ledger_require_balance();
create trigger ledger_entry_immutable before update or delete or truncate on ledger_entry
    for each statement execute function ledger_refuse_change();
create trigger ledger_txn_immutable before update or delete or truncate on ledger_txn
    for each statement execute function ledger_refuse_change();
create trigger ledger_chain_immutable before update or delete or truncate on ledger_chain
    for each statement execute function ledger_refuse_change();

-- Readable forms for people; nothing depends on them.
create view idempotency_readable as
    select merchant_id, key, operation, status, request_id, aggregate_key, event_id, created_at,
           encode(request_hash, 'hex') as request_hash, convert_from(response, 'UTF8')::jsonb as response
    from idempotency;
create view account_total as
    select account_id, currency, sum(debits) as debits, sum(credits) as credits, sum(debits) - sum(credits) as balance
    from account_balance group by account_id, currency;

-- Least privilege. No role of a running process owns a table, changes the ledger, or can alter or disable a trigger.
grant select on all tables in schema public to millrace_reader, millrace_operator, millrace_owner;
grant insert, update on partition_owner, payment_intent, processor_attempt, account_balance to millrace_owner;
grant insert on idempotency, outbox, ledger_txn, ledger_entry, ledger_chain, dead_letter, parked_aggregate to millrace_owner;
grant update (published) on dead_letter to millrace_owner;
grant select on idempotency, outbox, payment_intent, processor_attempt, partition_owner, dead_letter to millrace_ingress;
grant update (state, resolved_at, resolved_by) on dead_letter to millrace_operator;
grant delete on parked_aggregate to millrace_operator;
grant update (halted) on partition_owner to millrace_operator;

-- What processors and banks report, what each line was found to be, and what is still not explained.

create table settlement_report (
    processor   text collate "C" not null,           -- of a bank statement: bank:<account>
    report_id   text collate "C" not null,
    sha256      bytea not null,                      -- of the bytes that were read
    format      text collate "C" not null,
    state       text collate "C" not null check (state in ('taken_in', 'truncated', 'rejected')),
    note        text,                                -- why it was rejected
    is_complete_history boolean not null,            -- fetched from the processor, like every one before it
    lines       integer not null default 0,          -- taken in, without those that an earlier report had
    matched     integer not null default 0,
    oldest_at   timestamptz,                         -- when the oldest and the youngest capture in it were begun
    youngest_at timestamptz,
    ingested_at timestamptz not null default clock_timestamp(),
    primary key (processor, report_id)
);

create table settlement_line (
    processor    text collate "C" not null,
    line_id      text collate "C" not null,
    report_id    text collate "C" not null,
    line_no      integer not null,
    type         text collate "C" not null,
    operation_id text collate "C",
    reference    text collate "C",
    provider_ref text collate "C",
    currency     text collate "C" not null,
    gross        bigint not null,                    -- signed: above zero came to us
    fee          bigint not null,
    net          bigint not null,
    net_currency text collate "C" not null,
    batch        text collate "C",
    created      text,                               -- as the report says it, in whatever zone
    class        text collate "C" not null,          -- what it was found to be
    difference   bigint not null default 0,
    matched      text collate "C",                   -- the operation, dispute or payout that it tells of
    intent_id    text collate "C",
    attempt      integer,
    part_of      text collate "C",                   -- the line that settles several movements, of which this is one
    finding      text collate "C",                   -- what the owner is told of it; null = nothing
    posted_gross bigint,                             -- null = as the line says
    posted_fee   bigint,
    posted_difference bigint not null default 0,
    counterpart  text collate "C",                   -- of a bank entry: the processor whose payout it is
    posting      text collate "C" not null default 'none' check (posting in ('none', 'due', 'decided', 'refused')),
    case_id      text collate "C",
    primary key (processor, line_id)
) with (fillfactor = 80);
-- Only ever asked for equal ones, of random operations: a hash index costs half of a tree.
create index settlement_line_of on settlement_line using hash (matched) where matched is not null;
create index settlement_line_due on settlement_line (processor, line_id) where posting = 'due';
create index settlement_line_waiting on settlement_line (processor, line_id) where class = 'waiting';
create index settlement_line_payout on settlement_line (currency, posted_gross) where type = 'payout';

-- One row for each thing that is wrong, for as long as it is: whoever reconciles again sees the same ones.
create table settlement_discrepancy (
    processor   text collate "C" not null,
    subject     text collate "C" not null,           -- the line, operation, report or statement that it is about
    class       text collate "C" not null,
    reference   text collate "C" not null,           -- the payment when it is known, else what the line says
    amount      bigint not null check (amount >= 0),
    currency    text collate "C",
    line_id     text collate "C",
    matched     text collate "C",
    detail      text,
    case_id     text collate "C",
    state       text collate "C" not null default 'open' check (state in ('open', 'resolved')),
    first_seen  timestamptz not null default clock_timestamp(),
    resolved_at timestamptz,
    primary key (processor, subject, class)
);
create index settlement_discrepancy_open on settlement_discrepancy (first_seen) where state = 'open';
create index settlement_discrepancy_of on settlement_discrepancy (matched) where state = 'open';

grant select, insert, update on settlement_report, settlement_discrepancy to millrace_operator;
grant select, insert, update, delete on settlement_line to millrace_operator;
grant select on settlement_report, settlement_line, settlement_discrepancy to millrace_reader, millrace_owner, millrace_ingress;

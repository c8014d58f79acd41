-- Refunds and disputes as parts of a payment, what processors tell us through their webhooks, and cases for people.

alter table payment_intent add column amount_pending bigint not null default 0;
alter table processor_attempt add column settled_line text;
alter table processor_attempt drop constraint processor_attempt_kind_check;
alter table processor_attempt add constraint processor_attempt_kind_check
    check (kind in ('authorize', 'purchase', 'capture', 'void', 'refund'));
alter table processor_attempt drop constraint processor_attempt_status_check;
alter table processor_attempt add constraint processor_attempt_status_check
    check (status in ('created', 'pending', 'unknown', 'authorized', 'captured', 'voided', 'refunded', 'declined',
                      'failed', 'manual_review'));

create table refund (
    id             text collate "C" primary key,    -- names its payment, see identity.part_id
    intent_id      text collate "C" not null,
    merchant_id    text collate "C" not null,
    attempt        integer not null,
    amount         bigint not null check (amount > 0),
    currency       text collate "C" not null,
    state          text collate "C" not null check (state in ('pending', 'requires_action', 'succeeded', 'failed', 'canceled')),
    reason         text,
    failure_reason text,
    from_pending   bigint not null check (from_pending between 0 and amount),
    metadata       text not null,
    version        bigint not null check (version > 0),
    created_at     timestamptz not null,
    updated_at     timestamptz not null
) with (fillfactor = 70);
create index refund_of_intent on refund (intent_id, created_at, id);
create index refund_of_merchant on refund (merchant_id, created_at, id);  -- lists, newest first

create table dispute (
    id           text collate "C" primary key,      -- names its payment, see identity.part_id
    intent_id    text collate "C" not null,
    merchant_id  text collate "C" not null,
    processor    text collate "C" not null,
    provider_ref text collate "C" not null,
    amount       bigint not null check (amount > 0),
    currency     text collate "C" not null,
    fee          bigint not null check (fee >= 0),
    reason       text,
    state        text collate "C" not null check (state in ('warning_needs_response', 'warning_under_review', 'warning_closed',
                                                    'needs_response', 'under_review', 'won', 'lost', 'prevented')),
    funds        text collate "C" not null check (funds in ('none', 'withdrawn', 'reinstated')),
    version      bigint not null check (version > 0),
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    unique (processor, provider_ref)
) with (fillfactor = 70);
create index dispute_of_intent on dispute (intent_id, created_at, id);
create index dispute_of_merchant on dispute (merchant_id, created_at, id);

-- What a processor told us, as it came, durable before the 2xx. Applied by the webhook worker, through commands.
create table provider_event (
    processor         text collate "C" not null,
    provider_event_id text collate "C" not null,
    event_type        text collate "C" not null,
    reference         text collate "C",              -- the intent that it is about, as far as it says
    body              bytea not null,                -- the verified bytes; no card number is ever in them
    -- stored: to be applied. applied: its fact is decided. superseded: it says nothing that concerns us.
    -- parked: what it is about is not known yet, or it came too early; tried again at next_at. case: a person has to look.
    state             text collate "C" not null default 'stored'
                      check (state in ('stored', 'applied', 'superseded', 'parked', 'case')),
    tries             integer not null default 0,
    next_at           timestamptz not null default now(),
    note              text,
    received_at       timestamptz not null default now(),
    settled_at        timestamptz,
    primary key (processor, provider_event_id)
) with (fillfactor = 70);
create index provider_event_due on provider_event (next_at) where state in ('stored', 'parked');

-- Something that a person has to look at. One open case for each kind and reference, whatever repeats it.
create table repair_case (
    id          text collate "C" primary key,
    kind        text collate "C" not null,           -- unknown_reference, unknown_outcome, settlement_difference ...
    reference   text collate "C" not null,           -- what it is about: an intent, an operation, a settlement line
    processor   text collate "C",
    state       text collate "C" not null default 'open' check (state in ('open', 'proposed', 'resolved')),
    evidence    jsonb not null default '{}',
    opened_at   timestamptz not null default now(),
    resolved_at timestamptz,
    resolved_by text,
    note        text
);
create unique index repair_case_open on repair_case (kind, reference) where state <> 'resolved';
create index repair_case_age on repair_case (opened_at, id);

grant insert, update on refund, dispute to millrace_owner;
grant select on refund, dispute, repair_case, account_balance to millrace_ingress;
grant select, insert on provider_event to millrace_ingress;
grant select, update on provider_event to millrace_worker;
grant select, insert on repair_case to millrace_worker, millrace_operator;
grant update (state, resolved_at, resolved_by, note) on repair_case to millrace_operator;
grant select on refund, dispute, processor_attempt, payment_intent, idempotency to millrace_worker;
grant select on refund, dispute, provider_event, repair_case to millrace_reader, millrace_operator, millrace_owner;

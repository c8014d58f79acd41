-- Webhooks to merchants: where they go, what they are signed with, and one row for each delivery.

create table merchant_webhook_endpoint (
    id              text collate "C" primary key,
    merchant_id     text collate "C" not null,
    url             text collate "C" not null,
    events          text[] not null,                -- operations of events, or '*'
    description     text,
    -- unverified: no 2xx yet. active: somebody there verified us once. disabled: see the reason; nothing is sent.
    state           text collate "C" not null default 'unverified'
                    check (state in ('unverified', 'active', 'disabled', 'deleted')),
    disabled_reason text collate "C",
    created_at      timestamptz not null default now(),
    verified_at     timestamptz,
    last_success_at timestamptz,
    check ((state = 'disabled') = (disabled_reason is not null))
) with (fillfactor = 70);
create unique index merchant_webhook_endpoint_url on merchant_webhook_endpoint (merchant_id, url) where state <> 'deleted';
create index merchant_webhook_endpoint_age on merchant_webhook_endpoint (merchant_id, created_at, id) where state <> 'deleted';

-- A secret signs until a named time after the next one of its endpoint was made. Only the worker reads it.
create table merchant_webhook_secret (
    id          text collate "C" primary key,
    endpoint_id text collate "C" not null references merchant_webhook_endpoint,
    secret      text collate "C" not null,
    created_at  timestamptz not null default now()
);
create index merchant_webhook_secret_of_endpoint on merchant_webhook_secret (endpoint_id, created_at);

create table merchant_webhook_delivery (
    id              text collate "C" not null unique,
    endpoint_id     text collate "C" not null references merchant_webhook_endpoint,
    event_id        text collate "C" not null,
    aggregate_key   text collate "C" not null,
    seq             bigint not null,                -- of the event: the order of an object's deliveries
    operation       text collate "C" not null,
    body            bytea not null,                 -- the very bytes, on every try
    state           text collate "C" not null default 'waiting' check (state in ('waiting', 'delivered', 'given_up')),
    resent          boolean not null default false, -- by hand: out of order, and holds nothing up
    tries           integer not null default 0,
    first_try_at    timestamptz,
    next_at         timestamptz not null default now(),
    in_flight_until timestamptz,                    -- a sender may be at it until then
    last_status     integer,
    last_error      text collate "C",
    created_at      timestamptz not null default now(),
    finished_at     timestamptz,
    primary key (endpoint_id, event_id)
) with (fillfactor = 70);
create index merchant_webhook_delivery_due on merchant_webhook_delivery (endpoint_id, next_at) where state = 'waiting';
create index merchant_webhook_delivery_order on merchant_webhook_delivery (endpoint_id, aggregate_key, seq)
    where state = 'waiting' and not resent;
create index merchant_webhook_delivery_age on merchant_webhook_delivery (endpoint_id, created_at, id);
create index merchant_webhook_delivery_old on merchant_webhook_delivery (finished_at) where state <> 'waiting';

-- How far the stream was read, and by whom. A reader that froze finds another epoch when it wakes up.
create table merchant_webhook_position (
    partition   integer primary key,
    next_offset bigint not null,
    last_seq    bigint not null
);
create table merchant_webhook_reader (
    singleton   boolean primary key default true check (singleton),
    holder      text collate "C" not null,
    epoch       bigint not null,
    lease_until timestamptz not null
);
insert into merchant_webhook_reader (holder, epoch, lease_until) values ('', 0, '-infinity');

grant select, insert on merchant_webhook_endpoint to millrace_ingress;
grant update (state, disabled_reason) on merchant_webhook_endpoint to millrace_ingress;
grant insert, delete on merchant_webhook_secret to millrace_ingress;
grant select (id, endpoint_id, created_at) on merchant_webhook_secret to millrace_ingress;
grant select (id, endpoint_id, event_id, aggregate_key, operation, state, resent, tries, first_try_at, next_at,
    in_flight_until, last_status, last_error, created_at, finished_at) on merchant_webhook_delivery to millrace_ingress;
grant update (state, resent, tries, first_try_at, next_at, last_error, finished_at) on merchant_webhook_delivery
    to millrace_ingress;
grant select on merchant_webhook_endpoint, merchant_webhook_secret, merchant_webhook_delivery, merchant_webhook_position,
    merchant_webhook_reader to millrace_worker;
grant update (state, disabled_reason, verified_at, last_success_at) on merchant_webhook_endpoint to millrace_worker;
grant insert, update, delete on merchant_webhook_delivery to millrace_worker;
grant delete on merchant_webhook_secret to millrace_worker;
grant insert, update on merchant_webhook_position to millrace_worker;
grant update on merchant_webhook_reader to millrace_worker;
grant select on merchant_webhook_endpoint, merchant_webhook_delivery, merchant_webhook_position, merchant_webhook_reader
    to millrace_reader, millrace_operator;

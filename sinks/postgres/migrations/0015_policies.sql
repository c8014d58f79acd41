-- Policies that owners decide by (risk rules, routing), and the columns of what they decide.

alter table payment_intent add column next_action text;
alter table payment_intent add column authorized_until timestamptz;
alter table processor_attempt add column route text;
alter table processor_attempt drop constraint processor_attempt_kind_check;
alter table processor_attempt add constraint processor_attempt_kind_check
    check (kind in ('authorize', 'purchase', 'increment', 'capture', 'void', 'refund', 'evidence'));
alter table processor_attempt drop constraint processor_attempt_status_check;
alter table processor_attempt add constraint processor_attempt_status_check
    check (status in ('created', 'pending', 'unknown', 'authorized', 'captured', 'voided', 'refunded', 'declined',
                      'failed', 'manual_review', 'requires_action', 'blocked'));
-- An attempt that risk blocked was never sent: it is no charge.
alter table processor_attempt alter column live_charge set expression as
    (kind in ('authorize', 'purchase') and status not in ('declined', 'failed', 'voided', 'blocked'));
alter table dispute add column evidence text;         -- JSON: the merchant's own texts
alter table dispute add column evidence_state text check (evidence_state in ('draft', 'submitted'));

-- One row per version of a policy, for ever. Owners decide by the active one of each kind.
create table policy_version (
    kind       text collate "C" not null check (kind in ('risk', 'routing')),
    version    integer not null check (version > 0),
    body       text not null,                         -- canonical JSON; the domain reads it strictly
    state      text collate "C" not null check (state in ('active', 'retired')),
    author     text collate "C" not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (kind, version)
);
create unique index policy_version_active on policy_version (kind) where state = 'active';
grant select on policy_version to millrace_owner, millrace_ingress, millrace_operator, millrace_reader, millrace_worker;

-- What the rules, or an operator, said of a confirm: written by the owner in the commit that it decided.
create table risk_assessment (
    intent_id      text collate "C" not null,
    attempt        integer not null,
    decided_by     text collate "C" not null default '',  -- '' = the rules
    outcome        text collate "C" not null check (outcome in ('allow', 'review', 'block')),
    score          integer not null check (score between 0 and 100),
    policy_version integer not null,
    reasons        text not null,                     -- JSON list of {rule, score, detail, shadow}
    created_at     timestamptz not null,
    primary key (intent_id, attempt, decided_by)
);
grant select, insert on risk_assessment to millrace_owner;
grant select on risk_assessment to millrace_ingress, millrace_operator, millrace_reader;

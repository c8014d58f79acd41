-- The operator console: a role of its own that reads and nothing else, what it looks things up by, and ended sessions.

-- Commands of one aggregate: from them follow its events (event_id) and its ledger transactions (partition and offset).
-- Only ever asked for equal ones: a hash index costs half of a tree. It is the one index here on an owner's path.
create index idempotency_of_aggregate on idempotency using hash (aggregate_key);
-- Facts about money that an owner refused; few of many, so hardly any insert touches it.
create index idempotency_refused_fact on idempotency (created_at)
    where status = 'refused' and starts_with(merchant_id, 'processor:');
create index provider_event_of on provider_event using hash (reference) where reference is not null;
create index attempt_dispatch_provider_ref on attempt_dispatch using hash (provider_ref) where provider_ref is not null;
create index repair_case_reference on repair_case (reference, opened_at);
create index dead_letter_open on dead_letter (parked_at) where state = 'open';
create index risk_assessment_review on risk_assessment (created_at) where outcome = 'review';

-- A session is a signed cookie; signing out ends it before its time, at every ingress process.
create table console_session_ended (
    session_id text collate "C" primary key,
    expires_at timestamptz not null                  -- after it the cookie is refused anyway
);
create index console_session_ended_age on console_session_ended (expires_at);

grant select on partition_owner, idempotency, outbox, dead_letter, parked_aggregate, payment_intent, processor_attempt,
    ledger_txn, ledger_entry, account_balance, account_total, attempt_dispatch, sink_fence, sink_position, refund, dispute,
    provider_event, repair_case, repair_proposal, settlement_report, settlement_line, settlement_discrepancy,
    journal_entry, merchant_webhook_endpoint, merchant_webhook_position, risk_assessment, merchant_account, payout,
    processor_health to millrace_console;
grant select (id, endpoint_id, event_id, aggregate_key, operation, state, resent, tries, first_try_at, next_at,
    in_flight_until, last_status, last_error, created_at, finished_at) on merchant_webhook_delivery to millrace_console;
grant select, insert, delete on console_session_ended to millrace_console;

-- Evidence as an attempt, appeals of disputes, and holds that end by the clock.

alter table processor_attempt drop constraint processor_attempt_status_check;
alter table processor_attempt add constraint processor_attempt_status_check
    check (status in ('created', 'pending', 'unknown', 'authorized', 'captured', 'voided', 'refunded', 'declined',
                      'failed', 'manual_review', 'requires_action', 'blocked', 'submitted'));
alter table dispute drop constraint dispute_state_check;
alter table dispute add constraint dispute_state_check
    check (state in ('warning_needs_response', 'warning_under_review', 'warning_closed', 'needs_response', 'under_review',
                     'appeal_needs_response', 'appeal_under_review', 'won', 'lost', 'prevented'));

-- Holds whose time is over. Only payments with a hold are in it: it keeps no other payment's updates from their page.
create index payment_intent_hold_ends on payment_intent (authorized_until) where authorized_until is not null;

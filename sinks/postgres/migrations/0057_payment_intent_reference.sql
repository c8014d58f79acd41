-- A merchant's own name of a payment, and the list of those that have one.
alter table payment_intent add column reference text;
alter table millrace_replay.payment_intent add column reference text;
create index payment_intent_of_reference on payment_intent (merchant_id, reference, created_at, id)
    where reference is not null;

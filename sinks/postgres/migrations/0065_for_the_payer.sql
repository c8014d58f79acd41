-- What the payer is told of a payment, and where a challenge sends it back to. Nothing of it is in ClickHouse: it is personal.
alter table payment_intent add column description text, add column receipt_email text, add column statement_descriptor text,
    add column return_url text;
alter table millrace_replay.payment_intent add column description text, add column receipt_email text,
    add column statement_descriptor text, add column return_url text;

-- A replay compares every column of an intent: its shadow lacks those that came after it was made.
alter table millrace_replay.payment_intent add column next_action text, add column authorized_until timestamptz;

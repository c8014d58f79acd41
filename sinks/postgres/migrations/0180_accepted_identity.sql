-- What was answered 202 may have been said before, under another request id: then what that came to is the answer to both.
-- Null in the notes of an ingress of an earlier release.
alter table accepted_request
    add column idempotency_key text collate "C",
    add column request_hash    bytea;

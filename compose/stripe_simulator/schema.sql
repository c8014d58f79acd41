-- The account's own book. Run at every start: each statement is harmless when it was run before.

-- Every object that the API shows, as JSON; `sequence` is the order in which they were made.
CREATE TABLE IF NOT EXISTS object (
    sequence    INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    kind        TEXT    NOT NULL,
    parent      TEXT,
    made_at_ms  INTEGER NOT NULL,
    body        TEXT    NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS object_of_kind ON object (kind, parent, sequence);

-- What was answered under an idempotency key, for ever: Stripe itself forgets it after a day.
CREATE TABLE IF NOT EXISTS answer (
    key         TEXT    NOT NULL PRIMARY KEY,
    fingerprint BLOB    NOT NULL,
    status      INTEGER NOT NULL,
    body        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Money that moved, and holds, under the key of the request that asked for it: the witness of invariant 19.
CREATE TABLE IF NOT EXISTS effect (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    section      TEXT    NOT NULL CHECK (section IN ('captured', 'authorized', 'voided', 'refunded')),
    reference    TEXT    NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount > 0),
    currency     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Events still to be delivered, written with what they tell of.
CREATE TABLE IF NOT EXISTS outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    body     TEXT    NOT NULL
) STRICT;

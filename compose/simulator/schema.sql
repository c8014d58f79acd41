-- The processor's own book. Run at every start: each statement is harmless when it was run before.

-- One row per executed operation, for ever. `amount` is what was really booked, `token` the card whose
-- mode rules (a capture's is its authorization's; none when there is no such authorization).
CREATE TABLE IF NOT EXISTS operation (
    sequence     INTEGER PRIMARY KEY,
    operation_id TEXT    NOT NULL UNIQUE,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    token        TEXT,
    kind         TEXT    NOT NULL CHECK (kind IN ('authorize', 'purchase', 'capture', 'void')),
    status       TEXT    NOT NULL CHECK (status IN ('authorized', 'captured', 'voided', 'declined', 'failed')),
    reference    TEXT    NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount >= 0),
    currency     TEXT    NOT NULL CHECK (length(currency) = 3),
    parent       TEXT,
    decline_code TEXT,
    booked_at_ms INTEGER NOT NULL,
    CHECK ((decline_code IS NOT NULL) = (status IN ('declined', 'failed'))),
    CHECK (amount > 0 OR status = 'failed')
) STRICT;

CREATE TRIGGER IF NOT EXISTS operation_never_changes BEFORE UPDATE ON operation
BEGIN
    SELECT RAISE(ABORT, 'an operation in the book never changes');
END;

CREATE TRIGGER IF NOT EXISTS operation_never_leaves BEFORE DELETE ON operation
BEGIN
    SELECT RAISE(ABORT, 'an operation never leaves the book');
END;

-- The living part of an authorization. The CHECK is the last line against capturing more than was held.
CREATE TABLE IF NOT EXISTS hold (
    provider_ref TEXT    NOT NULL PRIMARY KEY,
    token        TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount > 0),
    captured     INTEGER NOT NULL DEFAULT 0 CHECK (captured >= 0),
    released     INTEGER NOT NULL DEFAULT 0 CHECK (released >= 0),
    CHECK (captured + released <= amount)
) STRICT, WITHOUT ROWID;

-- How often an operation of a counted mode was seen: a fault heals at the same call whatever was restarted between.
-- A row may be here without an operation: a send that failed before it touched the book.
CREATE TABLE IF NOT EXISTS sighting (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    sends        INTEGER NOT NULL DEFAULT 0 CHECK (sends >= 0),
    queries      INTEGER NOT NULL DEFAULT 0 CHECK (queries >= 0)
) STRICT, WITHOUT ROWID;

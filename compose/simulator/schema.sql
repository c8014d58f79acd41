-- The processor's own book. Run at every start: each statement is harmless when it was run before.

-- One row per executed operation, for ever. `amount` is what was really booked, `token` the card whose
-- mode rules (a capture's is its authorization's, a refund's its capture's; none when there is no such parent).
-- A card given by its number stands here as its network and last four digits.
CREATE TABLE IF NOT EXISTS operation (
    sequence     INTEGER PRIMARY KEY,
    operation_id TEXT    NOT NULL UNIQUE,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    token        TEXT,
    kind         TEXT    NOT NULL CHECK (kind IN ('authorize', 'purchase', 'increment', 'capture', 'void', 'refund',
                                                  'evidence')),
    status       TEXT    NOT NULL CHECK (status IN ('authorized', 'captured', 'voided', 'refunded', 'submitted',
                                                    'declined', 'failed')),
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

-- The living part of a capture or purchase. The CHECK is the last line against giving more back than was taken.
CREATE TABLE IF NOT EXISTS capture (
    provider_ref TEXT    NOT NULL PRIMARY KEY,
    operation_id TEXT    NOT NULL,
    token        TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount > 0),
    refunded     INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    disputed     INTEGER NOT NULL DEFAULT 0 CHECK (disputed >= 0),
    CHECK (refunded + disputed <= amount)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS capture_of_reference ON capture (reference);

-- Refunds that will fail although they succeeded, and those that did: the money is back in the capture.
CREATE TABLE IF NOT EXISTS refund_to_fail (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    due_at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refund_failure (
    sequence     INTEGER PRIMARY KEY,
    operation_id TEXT    NOT NULL UNIQUE,
    code         TEXT    NOT NULL,
    booked_at_ms INTEGER NOT NULL
) STRICT;

-- Operations that wait for their payer: nothing is booked of them but what was asked for (`body`, as JSON).
CREATE TABLE IF NOT EXISTS action (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    token        TEXT,
    body         TEXT    NOT NULL,
    due_at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS action_due ON action (due_at_ms);

-- Holds that will end by themselves soon, and those that did: the rest of their money is free again.
CREATE TABLE IF NOT EXISTS hold_to_end (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    due_at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hold_end (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    released     INTEGER NOT NULL CHECK (released > 0),
    booked_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What merchants said against disputes, as JSON: once for each.
CREATE TABLE IF NOT EXISTS evidence (
    sequence     INTEGER PRIMARY KEY,
    dispute_id   TEXT    NOT NULL UNIQUE,
    operation_id TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    booked_at_ms INTEGER NOT NULL
) STRICT;

-- A dispute as it was opened, and its end. Neither row ever changes.
CREATE TABLE IF NOT EXISTS dispute (
    sequence     INTEGER PRIMARY KEY,
    dispute_id   TEXT    NOT NULL UNIQUE,
    capture_ref  TEXT    NOT NULL,
    operation_id TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount > 0),
    currency     TEXT    NOT NULL,
    fee          INTEGER NOT NULL CHECK (fee >= 0),
    reason       TEXT    NOT NULL,
    booked_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dispute_of_capture ON dispute (capture_ref);
CREATE TABLE IF NOT EXISTS dispute_end (
    sequence     INTEGER PRIMARY KEY,
    dispute_id   TEXT    NOT NULL UNIQUE,
    outcome      TEXT    NOT NULL CHECK (outcome IN ('won', 'lost')),
    booked_at_ms INTEGER NOT NULL
) STRICT;

-- How often an operation of a counted mode was seen: a fault heals at the same call whatever was restarted between.
-- A row may be here without an operation: a send that failed before it touched the book.
CREATE TABLE IF NOT EXISTS sighting (
    operation_id TEXT    NOT NULL PRIMARY KEY,
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    sends        INTEGER NOT NULL DEFAULT 0 CHECK (sends >= 0),
    queries      INTEGER NOT NULL DEFAULT 0 CHECK (queries >= 0)
) STRICT, WITHOUT ROWID;

-- Deliveries still to be made, written with the effect that they tell of; a delivered one leaves.
CREATE TABLE IF NOT EXISTS webhook (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id      TEXT    NOT NULL,
    reference     TEXT    NOT NULL,
    operation_id  TEXT    NOT NULL,
    body          TEXT    NOT NULL,
    tries         INTEGER NOT NULL DEFAULT 0,
    due_at_ms     INTEGER NOT NULL,
    booked_at_ms  INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS webhook_due ON webhook (due_at_ms, sequence);
CREATE INDEX IF NOT EXISTS webhook_of_operation ON webhook (operation_id);

-- What moved money and stands in no report yet. Filled with the effect, emptied by the next report.
CREATE TABLE IF NOT EXISTS unsettled (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    type         TEXT    NOT NULL CHECK (type IN ('charge', 'refund', 'dispute', 'dispute_reversal')),
    operation_id TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    provider_ref TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    gross        INTEGER NOT NULL,
    fee          INTEGER NOT NULL,
    booked_at_ms INTEGER NOT NULL
) STRICT;

-- Reports as they were given out, with whatever lies were planted in them.
CREATE TABLE IF NOT EXISTS settlement_report (
    sequence           INTEGER PRIMARY KEY,
    report_id          TEXT    NOT NULL UNIQUE,
    utc_offset_minutes INTEGER NOT NULL,
    is_truncated       INTEGER NOT NULL CHECK (is_truncated IN (0, 1)),
    created_ms         INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS settlement_line (
    report_id    TEXT    NOT NULL,
    position     INTEGER NOT NULL,
    line_id      TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    operation_id TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    provider_ref TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    gross        INTEGER NOT NULL,
    fee          INTEGER NOT NULL,
    net          INTEGER NOT NULL CHECK (net = gross - fee),
    booked_at_ms INTEGER NOT NULL,
    PRIMARY KEY (report_id, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS settlement_line_never_changes BEFORE UPDATE ON settlement_line
BEGIN
    SELECT RAISE(ABORT, 'a settlement report never changes');
END;

CREATE TRIGGER IF NOT EXISTS settlement_line_never_leaves BEFORE DELETE ON settlement_line
BEGIN
    SELECT RAISE(ABORT, 'a settlement report never changes');
END;

-- Called by book.py, one name each. Every write runs in the one writer's transaction.

-- name: operation_fetch
-- Each send and query; served by the unique index on operation_id.
SELECT operation_id, fingerprint, token, kind, status, reference, amount, currency, decline_code
  FROM operation WHERE operation_id = ?;

-- name: operation_insert
-- The writer: one durable effect in the book. Primary key; the same operation twice fails.
INSERT INTO operation (operation_id, fingerprint, token, kind, status, reference, amount, currency, parent,
                       decline_code, booked_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: hold_fetch
-- The parent of a capture or void; served by the primary key.
SELECT provider_ref, token, reference, currency, amount, captured, released FROM hold WHERE provider_ref = ?;

-- name: hold_insert
-- The writer, after an authorization: the money that is held.
INSERT INTO hold (provider_ref, token, reference, currency, amount) VALUES (?, ?, ?, ?, ?);

-- name: hold_use
-- The writer, after a capture or a void: how much of a hold is used up. Primary key.
UPDATE hold SET captured = captured + ?, released = released + ? WHERE provider_ref = ?;

-- name: sighting_fetch
-- Before an effect: what this operation asked for when it was first seen. Primary key.
SELECT fingerprint FROM sighting WHERE operation_id = ?;

-- name: sighting_count_send
-- Every send of an operation that misbehaves: which send it is. Primary key.
INSERT INTO sighting (operation_id, fingerprint, sends) VALUES (?, ?, 1)
    ON CONFLICT (operation_id) DO UPDATE SET sends = sends + 1
RETURNING sends;

-- name: sighting_count_query
-- Every query of an operation that misbehaves: which query it is. Primary key.
INSERT INTO sighting (operation_id, fingerprint, queries) VALUES (?, ?, 1)
    ON CONFLICT (operation_id) DO UPDATE SET queries = queries + 1
RETURNING queries;

-- name: book_end
-- The last sequence: rows up to it never change, so reading up to it is a snapshot without a long transaction.
SELECT coalesce(max(sequence), 0) FROM operation;

-- name: book_page
-- One page of one section of GET /book as JSON text, made inside SQLite; walks the primary key.
SELECT max(sequence), group_concat(entry, ',') FROM (
    SELECT sequence,
           json_object('operation_id', operation_id, 'reference', reference,
                       'amount', amount, 'currency', currency) AS entry
      FROM operation
     WHERE status = ? AND sequence > ? AND sequence <= ?
     ORDER BY sequence
     LIMIT ?
);

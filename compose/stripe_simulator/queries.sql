-- name: answer_fetch
-- Every POST, first. Primary key.
SELECT fingerprint, status, body FROM answer WHERE key = ?;

-- name: answer_insert
-- Every POST that was carried out.
INSERT INTO answer (key, fingerprint, status, body) VALUES (?, ?, ?, ?);

-- name: object_fetch
-- By id; unique index.
SELECT body FROM object WHERE id = ? AND kind = ?;

-- name: object_put
-- Every change of an object.
INSERT INTO object (id, kind, parent, made_at_ms, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, parent = excluded.parent;

-- name: objects_list
-- Newest first, as the API lists. Index object_of_kind.
SELECT body FROM object WHERE kind = :kind AND (:parent IS NULL OR parent = :parent)
 ORDER BY sequence DESC LIMIT :count;

-- name: objects_count
-- For ids. Primary key.
SELECT coalesce(max(sequence), 0) FROM object;

-- name: intents_search
-- Search lags: what is newer than this is not found yet.
SELECT body FROM object WHERE kind = 'payment_intent' AND made_at_ms <= :until
   AND json_extract(body, '$.metadata.operation_id') = :operation_id ORDER BY sequence DESC LIMIT :count;

-- name: effect_insert
-- One effect of one key.
INSERT INTO effect (operation_id, section, reference, amount, currency) VALUES (?, ?, ?, ?, ?);

-- name: effect_delete
-- A refund that failed after it had succeeded leaves nothing in the book.
DELETE FROM effect WHERE operation_id = ?;

-- name: effects_all
-- GET /book.
SELECT operation_id, section, reference, amount, currency FROM effect ORDER BY operation_id;

-- name: outbox_insert
-- With every event.
INSERT INTO outbox (body) VALUES (?);

-- name: outbox_next
-- The sender, in the order of the events.
SELECT sequence, body FROM outbox ORDER BY sequence LIMIT ?;

-- name: outbox_delete
-- After a delivery. Primary key.
DELETE FROM outbox WHERE sequence = ?;

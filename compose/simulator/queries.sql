-- The operations' and holds' SQL, one name each. Every write runs in the one writer's transaction.

-- name: operation_fetch
-- Each send and query; served by the unique index on operation_id. What it became later: a code when it failed, an amount
-- when its hold ended.
SELECT o.operation_id, o.fingerprint, o.token, o.kind, o.status, o.reference, o.amount, o.currency, o.decline_code,
       o.booked_at_ms, f.code, h.released
  FROM operation o LEFT JOIN refund_failure f USING (operation_id) LEFT JOIN hold_end h USING (operation_id)
 WHERE o.operation_id = ?;

-- name: action_insert
-- The writer: an operation waits for its payer. Primary key.
INSERT INTO action (operation_id, fingerprint, token, body, due_at_ms) VALUES (?, ?, ?, ?, ?);

-- name: action_fetch
-- Each send and query of an operation that is not booked, and the lever. Primary key.
SELECT operation_id, fingerprint, token, body FROM action WHERE operation_id = ?;

-- name: actions_due
-- The book's clock: payers that never came back. Index action_due.
SELECT operation_id FROM action WHERE due_at_ms <= ? ORDER BY due_at_ms, operation_id LIMIT ?;

-- name: action_delete
-- The writer, with the operation that it became. Primary key.
DELETE FROM action WHERE operation_id = ?;

-- name: hold_grow
-- The writer, after an increment. Primary key.
UPDATE hold SET amount = amount + ? WHERE provider_ref = ?;

-- name: hold_to_end_insert
-- The writer, after an authorization whose card lets it end soon.
INSERT INTO hold_to_end (operation_id, due_at_ms) VALUES (?, ?);

-- name: holds_due
-- The book's clock; a handful of rows.
SELECT operation_id FROM hold_to_end WHERE due_at_ms <= ? ORDER BY due_at_ms, operation_id LIMIT ?;

-- name: hold_to_end_delete
-- The writer, when the hold has ended. Primary key.
DELETE FROM hold_to_end WHERE operation_id = ?;

-- name: hold_end_insert
-- The writer: a hold has ended by itself, with this much left of it. Primary key: once only.
INSERT INTO hold_end (operation_id, released, booked_at_ms) VALUES (?, ?, ?);

-- name: evidence_insert
-- The writer: what a merchant says against a dispute. Unique: once only.
INSERT INTO evidence (dispute_id, operation_id, content, booked_at_ms) VALUES (?, ?, ?, ?);

-- name: evidence_fetch
-- Before evidence is taken, and for the verdict. Unique index on dispute_id.
SELECT content FROM evidence WHERE dispute_id = ?;

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

-- name: capture_insert
-- The writer, after a capture or purchase: what may be refunded or disputed.
INSERT INTO capture (provider_ref, operation_id, token, reference, currency, amount) VALUES (?, ?, ?, ?, ?, ?);

-- name: capture_fetch
-- The parent of a refund; served by the primary key.
SELECT provider_ref, operation_id, token, reference, currency, amount, refunded, disputed
  FROM capture WHERE provider_ref = ?;

-- name: captures_of_reference
-- POST /disputes; the capture with the most left comes first. Index capture_of_reference.
SELECT provider_ref, operation_id, token, reference, currency, amount, refunded, disputed
  FROM capture WHERE reference = ? ORDER BY amount - refunded - disputed DESC, provider_ref LIMIT 1;

-- name: capture_give_back
-- The writer: by how much more of a capture is refunded and disputed; below zero when it comes back. Primary key.
UPDATE capture SET refunded = refunded + ?, disputed = disputed + ? WHERE provider_ref = ?;

-- name: refund_to_fail_insert
-- The writer, after a refund whose card lets it fail later.
INSERT INTO refund_to_fail (operation_id, due_at_ms) VALUES (?, ?);

-- name: refunds_due_to_fail
-- The book's clock, twice a second; a handful of rows.
SELECT o.operation_id, o.token, o.reference, o.amount, o.currency, o.parent
  FROM refund_to_fail r JOIN operation o USING (operation_id)
 WHERE r.due_at_ms <= ? ORDER BY r.due_at_ms, o.sequence LIMIT ?;

-- name: refund_failure_insert
-- The writer: a refund that had succeeded has failed. Unique: once only.
INSERT INTO refund_failure (operation_id, code, booked_at_ms) VALUES (?, ?, ?);

-- name: refund_to_fail_delete
-- The writer, with refund_failure_insert. Primary key.
DELETE FROM refund_to_fail WHERE operation_id = ?;

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

-- name: dispute_count
-- Before a dispute is opened: its number among those of its capture. Index dispute_of_capture.
SELECT count(*) FROM dispute WHERE capture_ref = ?;

-- name: dispute_insert
-- The writer: money that a card's bank has taken back.
INSERT INTO dispute (dispute_id, capture_ref, operation_id, reference, amount, currency, fee, reason, booked_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: dispute_fetch
-- POST /disputes/{id}/close; unique index on dispute_id.
SELECT d.capture_ref, d.operation_id, d.reference, d.amount, d.currency, d.fee, d.reason, e.outcome
  FROM dispute d LEFT JOIN dispute_end e USING (dispute_id) WHERE d.dispute_id = ?;

-- name: dispute_end_insert
-- The writer: a dispute is decided, once.
INSERT INTO dispute_end (dispute_id, outcome, booked_at_ms) VALUES (?, ?, ?);

-- name: webhook_insert
-- The writer, with every effect: one delivery to be made.
INSERT INTO webhook (event_id, reference, operation_id, body, due_at_ms, booked_at_ms) VALUES (?, ?, ?, ?, ?, ?);

-- name: webhooks_due
-- The sender, whenever it is idle. Index webhook_due.
SELECT sequence, event_id, reference, body, tries, booked_at_ms
  FROM webhook WHERE due_at_ms <= ? ORDER BY due_at_ms, sequence LIMIT ?;

-- name: webhook_next_due
-- The sender, before it waits. Index webhook_due.
SELECT min(due_at_ms) FROM webhook;

-- name: webhook_delete
-- The writer, after a delivery. Primary key.
DELETE FROM webhook WHERE sequence = ?;

-- name: webhook_postpone
-- The writer, after a delivery that was refused. Primary key.
UPDATE webhook SET tries = tries + 1, due_at_ms = ? WHERE sequence = ?;

-- name: webhook_is_waiting
-- An answer that waits for its webhook. Index webhook_of_operation.
SELECT EXISTS (SELECT 1 FROM webhook WHERE operation_id = ?);

-- name: webhooks_waiting
-- GET /metrics.
SELECT count(*) FROM webhook;

-- name: book_end
-- The last sequence of each table: rows up to them never change, so one statement's answer is a snapshot for ever.
SELECT (SELECT coalesce(max(sequence), 0) FROM operation), (SELECT coalesce(max(sequence), 0) FROM refund_failure),
       (SELECT coalesce(max(sequence), 0) FROM dispute), (SELECT coalesce(max(sequence), 0) FROM dispute_end),
       (SELECT coalesce(max(sequence), 0) FROM evidence);

-- name: book_page
-- One page of one section of GET /book as JSON text, made inside SQLite; walks the primary key.
-- A refund that failed in the end is in no section: nothing of it is left.
SELECT max(sequence), group_concat(entry, ',') FILTER (WHERE entry IS NOT NULL) FROM (
    SELECT sequence,
           CASE WHEN NOT EXISTS (SELECT 1 FROM refund_failure f
                                  WHERE f.operation_id = o.operation_id AND f.sequence <= :failure_end)
                THEN json_object('operation_id', operation_id, 'reference', reference,
                                 'amount', amount, 'currency', currency) END AS entry
      FROM operation o
     WHERE status = :status AND sequence > :after AND sequence <= :operation_end
     ORDER BY sequence
     LIMIT :count
);

-- name: book_disputes_page
-- One page of the disputes of GET /book, as they stood at the snapshot.
SELECT max(sequence), group_concat(entry, ',') FROM (
    SELECT d.sequence,
           json_object('dispute_id', d.dispute_id, 'operation_id', d.operation_id, 'reference', d.reference,
                       'amount', d.amount, 'currency', d.currency, 'fee', d.fee,
                       'status', coalesce(e.outcome, CASE WHEN v.dispute_id IS NULL THEN 'needs_response'
                                                          ELSE 'under_review' END),
                       'evidence', json(v.content),
                       'funds', CASE WHEN e.outcome = 'won' THEN 'reinstated' ELSE 'withdrawn' END) AS entry
      FROM dispute d
      LEFT JOIN dispute_end e ON e.dispute_id = d.dispute_id AND e.sequence <= :dispute_end_end
      LEFT JOIN evidence v ON v.dispute_id = d.dispute_id AND v.sequence <= :evidence_end
     WHERE d.sequence > :after AND d.sequence <= :dispute_end
     ORDER BY d.sequence
     LIMIT :count
);

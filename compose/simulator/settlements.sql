-- The reports' SQL (settlements.py, report_reader.py). Every write runs in the one writer's transaction.

-- name: unsettled_insert
-- The writer, with every effect that moved money.
INSERT INTO unsettled (type, operation_id, reference, provider_ref, currency, gross, fee, booked_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: unsettled_charges
-- POST /settlements with faults: the first charge of each reference, in one pass over what is unsettled.
SELECT reference, min(sequence), gross, fee FROM unsettled
 WHERE type = 'charge' AND reference IN (SELECT value FROM json_each(?)) GROUP BY reference;

-- name: unsettled_change
-- Planting a fault: other amounts in a line.
UPDATE unsettled SET gross = ?, fee = ? WHERE sequence = ?;

-- name: unsettled_copy
-- Planting a fault: the same charge in another line, with these amounts.
INSERT INTO unsettled (type, operation_id, reference, provider_ref, currency, gross, fee, booked_at_ms)
SELECT type, operation_id, reference, provider_ref, currency, ?, ?, booked_at_ms FROM unsettled WHERE sequence = ?;

-- name: unsettled_row
-- Planting a fault: what the second half of a charge keeps of it. Primary key.
SELECT type, operation_id, reference, provider_ref, currency, booked_at_ms FROM unsettled WHERE sequence = ?;

-- name: unsettled_delete
-- Planting a fault: a line that no report will ever hold.
DELETE FROM unsettled WHERE sequence = ?;

-- name: report_insert
-- The writer: a report, before its lines.
INSERT INTO settlement_report (report_id, utc_offset_minutes, is_truncated, created_ms) VALUES (?, ?, ?, ?);

-- name: lines_insert
-- The writer: all that is unsettled becomes the lines of a report, in the order in which it happened.
INSERT INTO settlement_line (report_id, position, line_id, type, operation_id, reference, provider_ref, currency,
                             gross, fee, net, booked_at_ms)
SELECT :report_id, row_number() OVER (ORDER BY sequence),
       printf('%s_%07d', :line_prefix, row_number() OVER (ORDER BY sequence)),
       type, operation_id, reference, provider_ref, currency, gross, fee, gross - fee, booked_at_ms
  FROM unsettled;

-- name: unsettled_clear
-- The writer, after lines_insert.
DELETE FROM unsettled;

-- name: report_sums
-- The writer: what is paid out, by currency. Primary key.
SELECT currency, sum(net) FROM settlement_line WHERE report_id = ? GROUP BY currency ORDER BY currency;

-- name: report_last_position
-- Primary key.
SELECT coalesce(max(position), 0) FROM settlement_line WHERE report_id = ?;

-- name: line_insert
-- The writer: a payout, or its return.
INSERT INTO settlement_line (report_id, position, line_id, type, operation_id, reference, provider_ref, currency,
                             gross, fee, net, booked_at_ms)
VALUES (?, ?, ?, ?, '', ?, ?, ?, ?, 0, ?, ?);

-- name: lines_resend
-- The writer: the same lines under another report's id.
INSERT INTO settlement_line (report_id, position, line_id, type, operation_id, reference, provider_ref, currency,
                             gross, fee, net, booked_at_ms)
SELECT ?, position, line_id, type, operation_id, reference, provider_ref, currency, gross, fee, net, booked_at_ms
  FROM settlement_line WHERE report_id = ?;

-- name: reports_page
-- GET /settlements, oldest first. Primary key.
SELECT sequence, report_id, created_ms FROM settlement_report WHERE sequence > ? ORDER BY sequence LIMIT ?;

-- name: report_fetch
-- GET /settlements/{report_id}; unique index. The last column is where a truncated report breaks off.
SELECT utc_offset_minutes, is_truncated,
       (SELECT coalesce(max(position), 0) FROM settlement_line l
         WHERE l.report_id = r.report_id AND l.type NOT LIKE 'payout%')
  FROM settlement_report r WHERE report_id = ?;

-- name: lines_page
-- One page of a report's download. Primary key.
SELECT position, line_id, report_id, type, operation_id, reference, provider_ref, currency, gross, fee, net,
       booked_at_ms
  FROM settlement_line WHERE report_id = ? AND position > ? ORDER BY position LIMIT ?;

-- A book of the second kind: its operations knew neither increments nor evidence. All else stays as it is.
INSERT INTO operation
SELECT sequence, operation_id, fingerprint, token, kind, status, reference, amount, currency, parent, decline_code,
       booked_at_ms
  FROM operation_before;
DROP TABLE operation_before;

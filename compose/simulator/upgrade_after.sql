-- Every operation as it was, and for what was captured its living part and its place in the next report.
INSERT INTO operation
SELECT sequence, operation_id, fingerprint, token, kind, status, reference, amount, currency, parent, decline_code,
       booked_at_ms
  FROM operation_before;
INSERT INTO capture (provider_ref, operation_id, token, reference, currency, amount)
SELECT provider_ref_for(operation_id), operation_id, token, reference, currency, amount
  FROM operation WHERE status = 'captured';
INSERT INTO unsettled (type, operation_id, reference, provider_ref, currency, gross, fee, booked_at_ms)
SELECT 'charge', operation_id, reference, provider_ref_for(operation_id), currency, amount, fee_of(amount),
       booked_at_ms
  FROM operation WHERE status = 'captured' ORDER BY sequence;
DROP TABLE operation_before;

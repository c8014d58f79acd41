-- The metering of tenants writes the columns that it fills, and moves the ends and places that it keeps: what names a row, its
-- floor and its time are nobody's to change.
revoke insert on usage_event, usage_conflict, tenant_invoice from millrace_tenancy_metering;
revoke insert, update on usage_counted, stream_position from millrace_tenancy_metering;
grant insert (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq) on usage_event
    to millrace_tenancy_metering;
grant insert (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, digest, conflict_id) on usage_conflict
    to millrace_tenancy_metering;
grant insert (tenant_id, ordinal, invoice_id, run_number, cut, entries, credit_left, document) on tenant_invoice
    to millrace_tenancy_metering;
grant insert (partition), update (last_seq) on usage_counted to millrace_tenancy_metering;
grant insert (follower, topic, partition, epoch, holder, next_offset, last_seq, topic_id),
    update (epoch, holder, next_offset, last_seq, topic_id, updated_at) on stream_position to millrace_tenancy_metering;

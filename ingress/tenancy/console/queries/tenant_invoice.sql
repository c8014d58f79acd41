-- One invoice as it stands. Its hash index.
select tenant_id, document, created_at from tenant_invoice where invoice_id = %(invoice)s

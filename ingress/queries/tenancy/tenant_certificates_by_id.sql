-- A certificate as it was signed. Primary key.
select document, jws from tenant_certificate where tenant_id = %(tenant_id)s::text and certificate_id = %(certificate_id)s::text

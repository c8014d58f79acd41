-- GET /.well-known/certificate-keys.json: every key that certificates were signed with, a few rows. Primary key.
select public_key from certificate_key order by key_id

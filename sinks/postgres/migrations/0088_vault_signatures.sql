-- The vault refuses unsigned calls of merchants that require signatures, as the ingress does.
grant select (id, merchant_id, public_key, revoked_at) on merchant_signing_key to millrace_vault;
grant select (merchant_id, requirement) on merchant_signature_requirement to millrace_vault;

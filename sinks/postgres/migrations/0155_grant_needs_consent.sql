-- Whether a tenant has to agree follows from its tier when a grant is approved, not only from that when it was asked for.
grant update (needs_consent) on support_grant to millrace_tenancy_owner;

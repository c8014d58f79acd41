-- Gateways of the limiter refuse who is not let in: their snapshots are made of the list, by the owners of policies.

grant select (kind, name, issued_before) on access_denied to millrace_limiter_owner;
grant select on access_denied_version to millrace_limiter_owner;

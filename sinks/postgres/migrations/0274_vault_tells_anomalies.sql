-- The vault tells who tries tokens at it, as the ingress does: a row of the audit log and a case, by the one function.
grant execute on function suspicious_access to millrace_vault;

-- What the ingress finds suspicious in who asks for what: a row of the audit log, and one open case for each kind and
-- subject, in one transaction. The ingress itself may not write cases.
create function suspicious_access(p_id text, p_kind text, p_subject text, p_details jsonb)
returns void language plpgsql security definer set search_path = public, pg_temp as $$
begin
    insert into repair_case (id, kind, reference, evidence)
    values (p_id, 'suspicious_access', p_kind || ' ' || p_subject, p_details)
    on conflict do nothing;
    perform audit_append(p_subject, 'access.' || p_kind, 'api', 'done', p_details);
end $$;
revoke all on function suspicious_access from public;
grant execute on function suspicious_access to millrace_ingress;

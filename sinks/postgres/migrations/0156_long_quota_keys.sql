-- What names a policy or a durable counter may be longer than an entry of an index (2,704 bytes): no index holds one whole any more.

-- Nothing looks a policy up by its scope; equal ones meet at policy.place, which is a digest.
drop index policy_of_scope;

-- Values of a durable counter that are longer than 1,024 bytes are kept by their digest (``quota_fields.kept_by``), which
-- begins as no values do. Those that were kept whole so far were compressed, or just fitted.
update quota_counter set counted_by = E'\x1f' || encode(sha256(convert_to(counted_by, 'UTF8')), 'hex')
where octet_length(counted_by) > 1024;
update quota_charge h
set counted_by = array(select case when octet_length(v) > 1024
                                   then E'\x1f' || encode(sha256(convert_to(v, 'UTF8')), 'hex') else v end
                       from unnest(h.counted_by) with ordinality as e (v, n) order by n)
where exists (select from unnest(h.counted_by) as e (v) where octet_length(v) > 1024);

-- id: tenancy_audit_chained
-- title: The audit log of each tenant is one chain up to its head
-- severity: critical
-- owner: whoever changed support access
-- source: postgres
with followed as (
    select l.tenant_id, l.link, l.seq, l.hash, row_number() over chain as place,
           audit_hash(coalesce(lag(l.hash) over chain, decode(repeat('00', 32), 'hex')), l.link, l.at, variadic l.fields) as made
    from tenant_audit_link l
    window chain as (partition by l.tenant_id order by l.link)
)
select f.tenant_id, f.seq, 'it is not what it was, or does not follow from the link before' as reason
from followed f where f.link <> f.place or f.made is distinct from f.hash
union all
select h.tenant_id, h.last_seq, 'the log does not end at its head'
from tenant_audit_head h
left join lateral (select l.link, l.hash from tenant_audit_link l where l.tenant_id = h.tenant_id
                   order by l.link desc limit 1) l on true
where (h.last_link, h.last_hash) is distinct from (l.link, l.hash)

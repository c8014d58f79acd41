-- Whether the newest links of a tenant's audit log follow from one another up to its head, and the first row that does not.
-- Primary key of the head; the log of one tenant.
with newest as (
    select l.* from tenant_audit_link l where l.tenant_id = %(tenant)s order by l.link desc limit %(limit)s
), followed as (
    select n.link, n.seq, n.hash, lag(n.link) over chain as before,
           audit_hash(coalesce(lag(n.hash) over chain, decode(repeat('00', 32), 'hex')), n.link, n.at, variadic n.fields) as made
    from newest n window chain as (order by n.link)
)
select h.last_link as links, encode(h.last_hash, 'hex') as head,
       (select min(f.seq) from followed f
        where (f.before is not null or f.link = 1) and (f.link <> coalesce(f.before, 0) + 1 or f.made is distinct from f.hash))
           as broken_seq,
       not exists (select from followed f where (f.link, f.hash) = (h.last_link, h.last_hash)) as is_cut
from tenant_audit_head h where h.tenant_id = %(tenant)s

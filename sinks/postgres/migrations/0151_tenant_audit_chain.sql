-- The audit log of a tenant is a chain: a link for each call that begins and for each one that ends, with the hash of the link
-- before. Whatever inserts or ends a row makes its link, in the same transaction; the end of the chain stands apart from it.

alter table tenant_audit
    add column begin_link bigint,
    add column begin_hash bytea,
    add column end_link   bigint,
    add column end_hash   bytea,
    add constraint tenant_audit_end_check check ((end_link is null) = (end_hash is null));
alter table tenant_audit_head
    add column last_link bigint not null default 0,
    add column last_hash bytea not null default decode(repeat('00', 32), 'hex');

comment on column tenant_audit.begin_link is 'place in the chain of the tenant''s log of what was written when it began';
comment on column tenant_audit.begin_hash is 'SHA-256 of the link before and of that';
comment on column tenant_audit.end_link is 'place in the chain of its result; null where it has none of its own';
comment on column tenant_audit.end_hash is 'SHA-256 of the link before and of that';

create function tenant_audit_linked() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
declare head tenant_audit_head;
begin
    update tenant_audit_head set last_link = last_link + 1 where tenant_id = new.tenant_id returning * into strict head;
    if tg_op = 'INSERT' then
        new.begin_link := head.last_link;
        new.begin_hash := audit_hash(head.last_hash, head.last_link, new.at, new.seq::text, new.actor, new.grant_id,
                                     new.action, new.object, new.result);
        head.last_hash := new.begin_hash;
    else
        new.end_link := head.last_link;
        new.end_hash := audit_hash(head.last_hash, head.last_link, new.at, new.seq::text, new.result);
        head.last_hash := new.end_hash;
    end if;
    update tenant_audit_head set last_hash = head.last_hash where tenant_id = new.tenant_id;
    return new;
end $$;
revoke all on function tenant_audit_linked() from public;

-- What was there before is linked as it stands.
do $$
declare
    one  tenant_audit;
    head tenant_audit_head;
begin
    for one in select * from tenant_audit order by tenant_id, seq loop
        update tenant_audit_head set last_link = last_link + 1 where tenant_id = one.tenant_id returning * into strict head;
        head.last_hash := audit_hash(head.last_hash, head.last_link, one.at, one.seq::text, one.actor, one.grant_id,
                                     one.action, one.object, one.result);
        update tenant_audit set begin_link = head.last_link, begin_hash = head.last_hash
        where tenant_id = one.tenant_id and seq = one.seq;
        update tenant_audit_head set last_hash = head.last_hash where tenant_id = one.tenant_id;
    end loop;
end $$;
alter table tenant_audit alter column begin_link set not null, alter column begin_hash set not null;
create trigger tenant_audit_begins before insert on tenant_audit for each row execute function tenant_audit_linked();
create trigger tenant_audit_ends before update of result on tenant_audit for each row
    when (old.result = 'begun' and new.result <> 'begun') execute function tenant_audit_linked();

-- Every link as it was hashed: seq, who, under what, what, of what, and what was known when it began; then seq and result.
create view tenant_audit_link with (security_invoker = true) as
select tenant_id, begin_link as link, seq, at,
       array[seq::text, actor, grant_id, action, object, case when end_link is null then result else 'begun' end] as fields,
       begin_hash as hash
from tenant_audit
union all
select tenant_id, end_link, seq, at, array[seq::text, result], end_hash
from tenant_audit where end_link is not null;
comment on view tenant_audit_link is 'The chain of a tenant''s audit log, a row for each link';
grant select on tenant_audit_link to millrace_operator, millrace_reader, millrace_console;
grant select on tenant_audit_head to millrace_console;

-- A support grant may begin later, and the tenant that consents may allow less than was asked for. What is in force stays where
-- every reader finds it (duration_s, masked_fields); what was asked for is kept beside it, and nothing in force is wider.
alter table support_grant
    add column not_before timestamptz,
    add column asked_duration_s integer,
    add column asked_masked_fields text,
    add constraint support_grant_narrowed_check
        check ((asked_duration_s is null) = (asked_masked_fields is null)
               and (asked_duration_s is null
                    or (consented_by is not null and duration_s <= asked_duration_s
                        and string_to_array(masked_fields, ' ') @> string_to_array(asked_masked_fields, ' ')))),
    add constraint support_grant_glass_is_now_check check (not break_glass or not_before is null);
grant update (duration_s, masked_fields, asked_duration_s, asked_masked_fields) on support_grant to millrace_tenancy_owner;

comment on column support_grant.duration_s is 'seconds in force, from when it is active';
comment on column support_grant.not_before is 'before which nothing is answered under it, and from which its time counts';
comment on column support_grant.asked_duration_s is 'seconds that were asked for, where the tenant consented to less';
comment on column support_grant.asked_masked_fields is 'masks that were asked for, where the tenant consented to less';

-- As in 0074, and refused before it begins, whichever ingress asks.
create or replace function tenant_audit_begin(of_tenant text, of_grant text, who text, what text, named text)
returns table (number bigint, word text)
language sql security definer set search_path = pg_catalog, public as $$
    with held as (
        select g.state = 'active' and g.expires_at > clock_timestamp()
               and coalesce(g.not_before, '-infinity') <= clock_timestamp() as is_active
        from support_grant g where g.tenant_id = of_tenant and g.grant_id = of_grant and g.requester = who),
    head as (
        insert into tenant_audit_head as h (tenant_id, last_seq) select of_tenant, 1 from held
        on conflict (tenant_id) do update set last_seq = h.last_seq + 1
        returning last_seq)
    insert into tenant_audit (tenant_id, seq, actor, grant_id, action, object, result)
    select of_tenant, head.last_seq, who, of_grant, what, named, case when held.is_active then 'begun' else 'refused' end
    from held, head
    returning seq, result
$$;

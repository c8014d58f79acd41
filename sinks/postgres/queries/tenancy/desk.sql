-- What the owner reads and writes of billing runs and support grants. Each names its index.

-- name: desk_periods
-- The runs of a tenant, whose periods no other may overlap, and, where they are corrected, the prices that each fixed.
-- Primary key.
select r.tenant_id, r.number, (extract(epoch from r.period_from) * 1000000)::bigint,
       (extract(epoch from r.period_to) * 1000000)::bigint,
       case when r.tenant_id = any(%s::text[]) then r.prices else '{}' end
from billing_run r
where r.tenant_id = any(%s::text[]);

-- name: desk_entries
-- How many billing entries a tenant has. Primary key.
select tenant_id, max(number) from billing_entry where tenant_id = any(%s::text[]) group by tenant_id;

-- name: desk_entitlements
-- What a tenant may, since which version each of it, and how often it was said. Primary key.
select tenant_id, version, entitlements, versions from tenant_entitlement where tenant_id = any(%s::text[]);

-- name: desk_grants
-- The grants of a batch, and of tenants whose tier is said those that begin later. Its hash index; the primary key.
select grant_id, tenant_id, requester, reason, ticket, scopes, duration_s, state, needs_consent, approvers, consented_by,
       ended_by, (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from expires_at) * 1000000)::bigint,
       version, break_glass, reviewed_by, (extract(epoch from reviewed_at) * 1000000)::bigint, findings,
       masked_fields, (extract(epoch from not_before) * 1000000)::bigint, asked_duration_s, asked_masked_fields
from support_grant
where grant_id = any(%s::text[]) or (tenant_id = any(%s::text[]) and state = 'active' and not_before > now());

-- name: desk_runs_insert
-- New runs; the number of a run that exists fails the batch.
insert into billing_run (partition, tenant_id, number, billing_run_id, invoice_id, period_from, period_to, grace_s, currency,
                         prices, created_at, made_by, person)
select t.partition, t.tenant_id, t.number, t.run_id, t.invoice_id, t.period_from, t.period_to, t.grace_s, t.currency,
       t.prices::jsonb, t.created_at, nullif(t.made_by, ''), nullif(t.person, '')
from unnest(%s::int[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::int[],
            %s::text[], %s::text[], %s::timestamptz[], %s::text[], %s::text[])
         as t (partition, tenant_id, number, run_id, invoice_id, period_from, period_to, grace_s, currency, prices,
               created_at, made_by, person);

-- name: desk_entries_insert
-- New entries; the number of one that exists fails the batch.
insert into billing_entry (tenant_id, number, entry_id, partition, kind, dimension, quantity, unit_price, at, period_from,
                           period_to, amount, reason, created_at, made_by, person)
select tenant_id, number, entry_id, partition, kind, nullif(dimension, ''), nullif(quantity, 0), nullif(unit_price, ''),
       nullif(at, '')::timestamptz, nullif(period_from, '')::timestamptz, nullif(period_to, '')::timestamptz,
       nullif(amount, 0), reason, created_at, made_by, nullif(person, '')
from unnest(%s::text[], %s::bigint[], %s::text[], %s::int[], %s::text[], %s::text[], %s::bigint[], %s::text[],
            %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::timestamptz[], %s::text[],
            %s::text[])
         as t (tenant_id, number, entry_id, partition, kind, dimension, quantity, unit_price, at, period_from, period_to,
               amount, reason, created_at, made_by, person);

-- name: desk_entitlements_write
-- What tenants may from now on: under the lock on their rows. Primary key.
insert into tenant_entitlement (tenant_id, partition, entitlements, versions, version, updated_at)
select tenant_id, partition, entitlements::jsonb, versions::jsonb, version, updated_at
from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::bigint[], %s::timestamptz[])
         as t (tenant_id, partition, entitlements, versions, version, updated_at)
on conflict (tenant_id) do update
set entitlements = excluded.entitlements, versions = excluded.versions, version = excluded.version,
    updated_at = excluded.updated_at;

-- name: desk_grants_insert
-- New grants; an id that exists fails the batch.
insert into support_grant (partition, tenant_id, grant_id, requester, reason, ticket, scopes, duration_s, state,
                           needs_consent, break_glass, created_at, masked_fields, not_before, version)
select partition, tenant_id, grant_id, requester, reason, ticket, scopes, duration_s, 'requested', needs_consent,
       break_glass, created_at, masked_fields,
       case when not_before > 0 then timestamptz 'epoch' + not_before * interval '1 microsecond' end, 1
from unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::int[],
            %s::boolean[], %s::boolean[], %s::timestamptz[], %s::text[], %s::bigint[])
         as t (partition, tenant_id, grant_id, requester, reason, ticket, scopes, duration_s, needs_consent, break_glass,
               created_at, masked_fields, not_before);

-- name: desk_grants_update
-- Compare-and-set on the versions read: a miss divides by zero, which fails the transaction.
with written as (
    update support_grant g
    set state = t.state, approvers = t.approvers::jsonb, consented_by = nullif(t.consented_by, ''),
        ended_by = nullif(t.ended_by, ''),
        expires_at = case when t.expires_at > 0 then timestamptz 'epoch' + t.expires_at * interval '1 microsecond' end,
        reviewed_by = nullif(t.reviewed_by, ''), findings = nullif(t.findings, ''),
        reviewed_at = case when t.reviewed_at > 0
                           then timestamptz 'epoch' + t.reviewed_at * interval '1 microsecond' end,
        version = t.version, duration_s = t.duration_s, masked_fields = t.masked_fields, needs_consent = t.needs_consent,
        asked_duration_s = nullif(t.asked_duration_s, 0),
        asked_masked_fields = case when t.asked_duration_s > 0 then t.asked_masked_fields end
    from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[],
                %s::bigint[], %s::text[], %s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::text[], %s::boolean[],
                %s::bigint[])
        as t (tenant_id, grant_id, state, approvers, consented_by, ended_by, expires_at, reviewed_by, reviewed_at,
              findings, version, duration_s, masked_fields, asked_duration_s, asked_masked_fields, needs_consent,
              read_version)
    where g.tenant_id = t.tenant_id and g.grant_id = t.grant_id and g.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

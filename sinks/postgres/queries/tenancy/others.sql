-- What the isolation monitor asks for: real ids that are not its canary's and that are, and stores of others. As the ingress reads.

-- name: objects_of_others
-- One object of each kind, whose tenant_id is another's: what no tenant has yet is not asked for. The first that is found.
(select 'invoice' as kind, i.tenant_id, i.invoice_id as object_id
 from tenant_invoice i where i.tenant_id <> %(asks)s::text limit 1)
union all
(select 'billing_run', b.tenant_id, b.billing_run_id from billing_run b where b.tenant_id <> %(asks)s::text limit 1)
union all
(select 'export', e.tenant_id, e.export_id from tenant_export e where e.tenant_id <> %(asks)s::text limit 1)
union all
(select 'certificate', c.tenant_id, c.certificate_id
 from tenant_certificate c where c.tenant_id <> %(asks)s::text limit 1)
union all
(select 'migration', m.tenant_id, m.migration_id from tenant_migration m where m.tenant_id <> %(asks)s::text limit 1)
union all
(select 'grant', g.tenant_id, g.grant_id from support_grant g where g.tenant_id <> %(asks)s::text limit 1)
union all
(select 'operation', %(other)s::text, o.request_id
 from idempotency o where o.merchant_id = 'tenant:' || %(other)s::text limit 1);

-- name: objects_of_own
-- One object of each kind that is a tenant's own; of exports a ready one, as no other has a content.
(select 'invoice' as kind, i.tenant_id, i.invoice_id as object_id
 from tenant_invoice i where i.tenant_id = %(asks)s::text limit 1)
union all
(select 'billing_run', b.tenant_id, b.billing_run_id from billing_run b where b.tenant_id = %(asks)s::text limit 1)
union all
(select 'export', e.tenant_id, e.export_id
 from tenant_export e where e.tenant_id = %(asks)s::text and e.state = 'ready' limit 1)
union all
(select 'certificate', c.tenant_id, c.certificate_id
 from tenant_certificate c where c.tenant_id = %(asks)s::text limit 1)
union all
(select 'migration', m.tenant_id, m.migration_id from tenant_migration m where m.tenant_id = %(asks)s::text limit 1)
union all
(select 'grant', g.tenant_id, g.grant_id from support_grant g where g.tenant_id = %(asks)s::text limit 1)
union all
(select 'operation', %(asks)s::text, o.request_id
 from idempotency o where o.merchant_id = 'tenant:' || %(asks)s::text limit 1);

-- name: placement_after
-- The next store that is another tenant's own, behind a place. Primary key.
select placement_id, mode, shard_or_database from placement
where placement_id > %(after)s and state = 'active' and mode <> 'pooled' and tenant_id <> %(asks)s
order by placement_id limit 1;

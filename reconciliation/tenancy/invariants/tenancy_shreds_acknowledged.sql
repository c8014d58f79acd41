-- id: tenancy_shreds_acknowledged
-- title: Who has a lease on keys of tenants acknowledges a shred within a minute: end this process, no certificate is signed before
-- severity: critical
-- owner: mover
-- source: postgres
select k.tenant_id, h.kind, h.instance, h.started_at, h.lease_until
from tenant_key k join key_holder h on h.acked_seq < k.shred_seq
where k.state = 'destroyed' and k.certificate_id is null
  and k.destroyed_at < (extract(epoch from clock_timestamp()) * 1000000)::bigint - 60 * 1000000
  and h.lease_until > clock_timestamp() - interval '2 seconds'

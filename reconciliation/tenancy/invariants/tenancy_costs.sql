-- id: tenancy_costs
-- title: What tenants cost is kept without gap, each slice of a tenant that is there or was, and of one kind of cost
-- severity: major
-- owner: whoever changed what costs are measured by
-- source: postgres
-- What is two days old may be removed: gaps are looked for among what is younger by an hour.
select s.tenant_id, s.seq, s.source, 'there never was such a tenant' as reason
from tenant_feed f join tenant_cost_slice s on s.seq > f.known_from
where f.feed = 'cost' and not exists (select from tenant t where t.tenant_id = s.tenant_id)
union all
select s.tenant_id, s.seq, s.source, 'it is of more than one kind of cost'
from tenant_cost_slice s
where (s.calls > 0 or s.database_us > 0)::int + (s.commands > 0 or s.owner_us > 0 or s.bytes_stored > 0)::int
      + (s.clickhouse_us > 0)::int > 1
union all
select null, f.last_seq, null, 'a place is missing, twice, or behind the last'
from tenant_feed f
cross join lateral (select min(s.seq) as first, max(s.seq) as last, count(*) as slices, count(distinct s.seq) as places
                    from tenant_cost_slice s
                    where s.seq >= (select min(seq) from tenant_cost_slice where ended_at >= now() - interval '47 hours')) y
where f.feed = 'cost' and y.slices > 0 and (y.last, y.slices, y.places) <> (f.last_seq, f.last_seq - y.first + 1, y.slices)

-- GET /v1/policy_snapshots/newest. Served by the primary key, from the right.
select digest, document from policy_snapshot order by revision desc, issued_at desc limit 1

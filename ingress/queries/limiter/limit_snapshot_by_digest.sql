-- GET /v1/policy_snapshots/{digest}. A scan: publishing one deletes those before it, so that there are a few rows at most.
select document from policy_snapshot where digest = %(digest)s limit 1

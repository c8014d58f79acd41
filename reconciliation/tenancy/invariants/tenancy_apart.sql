-- id: tenancy_apart
-- title: No probe reached another tenant, and the catalog lets none pass
-- severity: critical
-- owner: whoever changed routes, roles or tables
-- source: postgres
select probe as what, evidence from isolation_violation where resolved_at is null
union all
select lint_id, named from isolation_lint where gaps > 0

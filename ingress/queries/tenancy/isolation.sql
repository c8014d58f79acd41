-- GET /v1/isolation: the newest round, what is open, and the lints. Primary keys, isolation_violation_open.
select (select (extract(epoch from as_of) * 1000000)::bigint from isolation_round),
       (select probes from isolation_round),
       (select count(*) from isolation_violation where resolved_at is null),
       (select coalesce(json_agg(json_build_object('id', lint_id, 'gaps', gaps) order by lint_id), '[]') from isolation_lint)

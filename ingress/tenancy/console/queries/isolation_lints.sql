-- What the catalog says, by lint: a row each. Primary key.
select lint_id, gaps, named from isolation_lint where lint_id > '' order by lint_id limit %(limit)s

-- GET /readyz.
select 1 as alive

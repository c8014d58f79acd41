-- Databases that are a tenant's own, as the isolation monitor looks into them.

-- name: databases_after
-- The next ones behind a place, with whose they are. Primary key.
select placement_id, tenant_id from placement
where placement_id > %(after)s and mode = 'dedicated' and state = 'active' order by placement_id limit %(limit)s;

-- name: databases_all
-- Which there are: at most as many as a release has places for. Primary key.
select placement_id from placement where mode = 'dedicated' and state = 'active';

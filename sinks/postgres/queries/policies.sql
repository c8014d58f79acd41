-- What owners decide by. Each names its index.

-- name: policies_active
-- The active version of every kind. policy_version_active.
select kind, version, body from policy_version where state = 'active';

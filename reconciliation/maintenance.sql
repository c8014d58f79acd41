-- Maintenance, for the operator.

-- name: switch
-- `millrace maintenance on|off`: one transaction with its audit row.
select maintenance_switch(%(body)s, %(author)s);

-- name: active
-- `millrace maintenance show`. policy_version_active.
select version, body, author, created_at from policy_version where kind = 'maintenance' and state = 'active';

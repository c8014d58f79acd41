-- Totals of keys are kept by a digest of their key: whole, one may be longer than an entry of an index (2,704 bytes).
-- limit_usage_by_hash stays: it has the names of what ClickHouse knows by its MD5.
create function limit_key_digest(key text) returns bytea language sql immutable strict parallel safe
    as $$ select sha256(convert_to(key, 'UTF8')) $$;
alter table limit_usage
    drop constraint limit_usage_pkey,
    add column key_digest bytea generated always as (limit_key_digest(limit_key)) stored,
    add primary key (key_digest);

-- The parts of an upload, in order. Primary key.
select number, size, sha256, received_at is not null as received from media_part
where media_id = %(media_id)s::text order by number

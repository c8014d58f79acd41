-- A medium's record as the specification names it. Virtual: nothing is rewritten or kept twice.
alter table media
    add column rendition_manifest text generated always as (manifest) virtual,
    -- the key of its bytes at the origin, while there are any: `source_key` in sinks/objects/media_objects.py
    add column source_uri text generated always as (
        case when scan_state in ('scanning', 'ready') then 'sources/' || left(sha256, 2) || '/' || sha256 || '/' || media_id end
    ) virtual;

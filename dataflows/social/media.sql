-- name: media_read
-- The media that a batch names. Primary key.
select media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
       access_version, version, created_at, updated_at
from media where media_id = any (%s::text[]);

-- name: media_of_posts
-- The media of the posts that a batch edits or deletes. Served by media_of_post.
select media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
       access_version, version, created_at, updated_at
from media where attached_post_id = any (%s::text[]);

-- name: media_removed
-- Those of them that a decision has taken down. Primary key.
select object_id from moderation_current where object_id = any (%s::text[]) and effect = 'remove';

-- name: media_block_waits
-- Whoever blocks a content waits until this transaction is over: the trigger block_waits takes the same lock, for itself alone.
select pg_advisory_xact_lock_shared(hashtextextended('millrace:media:blocked', 0)) where cardinality(%s::text[]) > 0;

-- name: media_blocked
-- Those of them whose content is refused by now. Primary keys.
select m.media_id from media m join media_blocked b on b.sha256 = m.sha256 where m.media_id = any (%s::text[]);

-- name: media_room
-- How many bytes of media users hold, and how many they may. Primary keys.
select u.user_id, coalesce(h.bytes, 0), coalesce(own.bytes, everybody.bytes)
from unnest(%s::text[]) as u (user_id)
left join media_held h on h.user_id = u.user_id
left join media_quota own on own.user_id = u.user_id
left join media_quota everybody on everybody.user_id = '*';

-- name: media_insert
-- New uploads; an id that exists fails the batch.
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
                   access_version, version, created_at, updated_at)
select t.media_id, t.owner_id, t.mime, t.size, t.sha256, t.parts, t.expires_in_s, t.scan_state, nullif(t.manifest, ''),
       nullif(t.attached_post_id, ''), t.access_version, t.version, t.created_at, t.updated_at
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::text[],
            %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
    as t (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
          access_version, version, created_at, updated_at);

-- name: media_update
-- Media, compared and set: a miss divides by zero, which fails the transaction.
with written as (
    update media m
    set scan_state = t.scan_state, manifest = nullif(t.manifest, ''), attached_post_id = nullif(t.attached_post_id, ''),
        access_version = t.access_version, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (media_id, scan_state, manifest, attached_post_id, access_version, version, updated_at, read_version)
    where m.media_id = t.media_id and m.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: parts_insert
-- What was declared of the parts of new uploads.
insert into media_part (media_id, number, size, sha256)
select * from unnest(%s::text[], %s::int[], %s::bigint[], %s::text[]);

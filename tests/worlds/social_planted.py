"""What is planted in the tables of social posts: what violates invariants, what a backup brings back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from schemas.social import limits
from sinks.objects.media_objects import rendition_key, source_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_OF_USER = {"author": "user_id", "author_key": "user_id", "post": "author_id", "post_version": "post_id"}
_KEPT = "select coalesce(jsonb_agg(t), '[]')::text from {table} t where {column} = any (%s)"
_PUT_BACK = "insert into {table} select * from jsonb_populate_recordset(null::{table}, %s::jsonb)"
_CONNECTIONS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name = 'millrace-eraser' and datname = current_database()"
)
_CROWD = """
with put as (
    insert into follow (follower_id, followee_id, state, version, created_at, updated_at)
    select 'u_crowd' || n, %(author)s, case when n <= %(count)s then 'active' else 'removed' end, 1, 0, 0
    from generate_series(1, %(most)s) n
    on conflict (follower_id, followee_id) do update set state = excluded.state, version = follow.version + 1)
update author set followers = %(count)s + (
    select count(*) from follow
    where followee_id = %(author)s and state = 'active' and follower_id not like 'u_crowd%%')
where user_id = %(author)s
"""
_MANY_POSTS = """
insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
select 'po_m' || n, %(owner)s, 'public', 'of many', 1, 'published',
       (select array_agg(format('md_m%%s', m)) from generate_series(4 * n, 4 * n + 3) m), 'po_m' || n, true, n
from generate_series(0, %(count)s / 4 - 1) n
"""
_MANY_MEDIA = """
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
                   access_version, version, created_at, updated_at)
select 'md_m' || n, %(owner)s, 'image/png', 1, repeat('a', 64), 1, 60, 'ready',
       '{"version": 1, "renditions": [{"name": "thumb.webp"}, {"name": "full.webp"}]}', 'po_m' || n / 4, 2, 4, n, n
from generate_series(0, %(count)s - 1) n
"""
#: SQL that violates invariants of media and moderation, by invariant
VIOLATIONS = {
    "social_media_claims": "update media set attached_post_id = (select post_id from post p where p.author_id <> owner_id and state = 'published' limit 1) where scan_state = 'ready'",
    "social_media_served": "update author set is_private = true, state = 'active' where user_id in (select owner_id from media where scan_state = 'ready');"
    " create or replace view media_access as select media_id, owner_id, attached_post_id, manifest, access_version, true as is_served, true as is_public, scan_state as shown_state from media",
    "social_media_uploads": "update media_part set received_at = null where media_id in (select media_id from media where scan_state = 'ready')",
    "social_media_scanned": "update media set created_at = created_at - 2 * 86400 * 1000000::bigint, attached_post_id = null",
    "social_media_held": "update media_held set bytes = bytes + 1",
    "social_moderation": "update moderation_current set epoch = epoch + 1",
    "social_appeals": "update moderation_case set reports = reports + 1",
    "social_propagation": "delete from moderation_propagation where consumer = 'search'",
    "social_counts": "insert into reaction_count (post_id, kind, part, active) select post_id, 'like', 64, 1 from post limit 1",
    "social_notices": "insert into notification (notification_id, user_id, kind, actor_id, post_id, created_at)"
    " select 'no_' || post_id, 'u_nobody', 'mention', author_id, post_id, 0 from post p where version > 1 and state = 'published'"
    " and not exists (select from moderation_decision d where d.object_id = p.post_id and d.decision = 'remove') limit 1",
    "social_erased": "update author set display_name = 'still there' where state = 'deleted'",
}


class Backup:
    """A user with its post as they are now, and as they are put back later. Asks as the superuser."""

    def __init__(self, connection: psycopg.Connection[Any], user_id: str, post_id: str) -> None:
        self._connection = connection
        self._ids = [user_id, post_id]
        self._kept = {
            table: connection.execute(_KEPT.format(table=table, column=column).encode(), [self._ids]).fetchone()
            for table, column in _OF_USER.items()
        }

    def put_back(self) -> None:
        """Account, text and key are there again, and no erasure; who was connected is not."""
        with self._connection.transaction():
            self._connection.execute("set local session_replication_role = replica")  # no trigger notes it
            for table, column in ({"erasure": "user_id"} | _OF_USER).items():
                self._connection.execute(f"delete from {table} where {column} = any (%s)".encode(), [self._ids])
            for table, rows in self._kept.items():
                self._connection.execute(_PUT_BACK.format(table=table).encode(), rows)
        self._connection.execute(_CONNECTIONS)


def crowd(superuser_dsn: str, author: str, count: int) -> None:
    """So many more follow from now on, and no other of those who were planted before."""
    with psycopg.connect(superuser_dsn) as connection:
        connection.execute(_CROWD, {"author": author, "count": count, "most": limits.PUSH_FOLLOWERS_MAX})


def in_folder(folder: Path, key: str, data: bytes) -> None:
    """An object, as an installation has it whose media lie in a folder."""
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).write_bytes(data)


def many_media(superuser_dsn: str, put: Callable[[str, bytes], None], owner: str, count: int) -> None:
    """So many media of a user, four in a post, as they are when they are ready, with their bytes."""
    with psycopg.connect(superuser_dsn) as connection:
        for planted in (_MANY_POSTS, _MANY_MEDIA):
            connection.execute(planted, {"owner": owner, "count": count})
    for n in range(count):
        media_id = f"md_m{n}"
        names = (rendition_key(media_id, name) for name in ("thumb.webp", "full.webp"))
        for key in (source_key(media_id, "a" * 64), *names):
            put(key, b"x")

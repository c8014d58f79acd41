"""What violates the invariants of media and moderation: SQL that plants it, by invariant."""

from __future__ import annotations

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
    "social_erased": "update author set display_name = 'still there' where state = 'deleted'",
}

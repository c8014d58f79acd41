"""The golden records of social posts: one for every newest version."""

from __future__ import annotations

from typing import Any, Final

from tests.contracts import golden_social_media

_POST: Final = {"post_id": "po_golden"}
_USER: Final = {"user_id": "u_2-b"}
_OF_POSTS: Final = ("DeletePost", "LikePost", "UnlikePost", "RepostPost", "UnrepostPost")
_OF_EDGES: Final = ("Follow", "Unfollow", "AcceptFollow", "RejectFollow", "Block", "Unblock", "Mute", "Unmute")


def records(envelope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By record name; commands in the envelope."""
    callers = envelope | {"aggregate_key": "user:u_1", "scope": "user:u_1"}
    sealed = {"signals": {"sealed": "AAECAwQF"}}
    post = {"text": "Grüße\n@u_2", "media_ids": ["md_1", "md_2"], "visibility": "followers"}
    return golden_social_media.records(envelope) | {
        "PublishPost": callers | sealed | {"payload": post | {"reply_to": "po_golden", "quote_of": None}},
        "EditPost": callers | sealed | {"expected_version": 1, "payload": post | _POST | {"media_ids": None}},
        "ChangeProfile": callers | sealed | {"payload": {"display_name": "Ä", "is_private": True}},
        **{name: callers | {"payload": _POST} for name in _OF_POSTS},
        **{name: callers | {"payload": _USER} for name in _OF_EDGES},
        "SocialPostServiceCommitted": {
            "event_id": "evt_s0003000000000001",
            "aggregate_key": "user:u_1",
            "event_type": "social_post_service_committed",
            "schema_version": 1,
            "trace_id": "0123456789abcdef0123456789abcdef",
            "seq": 1,
            "occurred_at": 1_800_000_000_000_002,
            "version": 3,
            "scope": "user:u_1",
            "operation": "repost_post",
            "body": {
                "kind": "post_reposted",
                "pushed": True,
                "post_id": "po_golden",
                "target_id": None,
                "state": "active",
            },
        },
    }

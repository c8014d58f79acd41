"""Objects of users and of moderators that the calls of the document are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from tests.eventually import patient
from tests.worlds.social_media import picture, sha

if TYPE_CHECKING:
    from tests.e2e.api_world import ApiWorld

Json = dict[str, Any]


def of_moderators(world: ApiWorld) -> None:
    user = world.who["user"]
    for name in ("user", "moderator", "judge", "leaver", "guest"):
        world.who[name].does("GET", "/v1/me")
    posts = [user.does("POST", "/v1/posts", {"text": "Bad", "visibility": "public"})["post_id"] for _ in range(4)]
    reported = {"reason": "spam"}
    for post in posts:
        world.who["guest"].does("POST", "/v1/moderation/reports", {"object_id": post} | reported)
    decides = {"decision": "limit", "reason": "spam", "policy_version": 1}

    def decided(post: str) -> str:
        made = world.who["judge"].does("POST", "/v1/moderation/decisions", {"object_id": post} | decides)
        return str(made["decision_id"])

    world.about({"object_id": posts[0]}, "assign_case")
    world.bodies["decide_case"] = {"object_id": posts[1]} | decides
    first, second = decided(posts[2]), decided(posts[3])
    world.about({"decision_id": first}, "get_decision", "get_propagation")
    world.bodies["appeal_decision"] = {"decision_id": first, "text": "It is not"}
    appeal = user.does("POST", "/v1/moderation/appeals", {"decision_id": second, "text": "It is not"})
    world.about({"appeal_id": appeal["appeal_id"]}, "decide_appeal")


def of_users(world: ApiWorld) -> None:
    user, other = world.who["user"], world.who["moderator"]
    me, them = (caller.does("GET", "/v1/me")["user_id"] for caller in (user, other))
    asks = [world.who[name].does("GET", "/v1/me")["user_id"] for name in ("judge", "guest")]
    post, gone = (
        user.does("POST", "/v1/posts", {"text": "A post", "visibility": "public"})["post_id"] for _ in range(2)
    )
    world.about({"post_id": post}, "edit_post", "get_post", "like_post", "unlike_post")
    world.about({"post_id": post}, "list_post_versions", "list_post_replies", "get_thread")
    world.about({"post_id": gone}, "delete_post")
    world.about(
        {"user_id": them}, "follow", "unfollow", "get_follow", "mute", "unmute", "get_user", "get_user_timeline"
    )
    public = other.does("POST", "/v1/posts", {"text": "Another post", "visibility": "public"})["post_id"]
    world.about({"post_id": public}, "repost_post", "unrepost_post")
    world.headers |= {name: {"If-Match": '"1"'} for name in ("edit_post", "delete_post", "delete_resource")}
    erased = world.who["erased"]
    erased.does("POST", "/v1/me/erasure", {"confirm": erased.does("GET", "/v1/me")["user_id"]})
    user.does("PUT", f"/v1/follows/{them}")
    user.does("PATCH", "/v1/me", {"is_private": True})
    for name in ("judge", "guest"):
        world.who[name].does("PUT", f"/v1/follows/{me}")
    leaver = world.who["leaver"].does("GET", "/v1/me")["user_id"]
    world.about({"user_id": asks[0]}, "accept_follow", "block", "unblock")
    world.about({"user_id": asks[1]}, "reject_follow")
    data = picture()
    begun = {"mime": "image/png", "bytes": len(data), "sha256": sha(data)}
    medium = user.does("POST", "/v1/media/uploads", begun)
    httpx.put(medium["parts"][0]["url"], content=data, timeout=patient(20), trust_env=False)
    world.about({"media_id": medium["media_id"]}, "get_upload", "complete_upload")
    world.about({"media_id": user.does("POST", "/v1/media/uploads", begun)["media_id"]}, "delete_upload")
    export = user.does("POST", "/v1/me/exports")["export_id"]
    world.about({"export_id": export}, "get_export", "get_export_content")
    world.bodies |= {"erase_user": {"confirm": leaver}, "report_object": {"object_id": them}}
    world.queries["search_posts"] = {"q": "post"}

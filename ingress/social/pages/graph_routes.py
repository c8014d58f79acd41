"""Follows, requests, blocks, mutes; notifications; one's own settings."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from dataflows.social.domain.records import Author, rendered_user
from ingress import limits
from ingress.social.edges import Edges
from ingress.social.notifications import Notifications
from ingress.social.pages import acts
from ingress.social.pages import visit as visits
from ingress.social.pages.cards import Cards
from ingress.social.posts import Posts
from schemas import errors

_ACTS: Final = frozenset({"follow", "unfollow", "block", "unblock", "mute", "unmute"})
_ANSWERS: Final = {"accept": "accept_follow", "reject": "reject_follow"}

router: Final = visits.router()


@router.post("/users/{user_id}/{word}")
async def towards(request: Request, user_id: str, word: str) -> Response:
    """Changes what the user has towards another one."""
    found = await visits.signed_in(request)
    if word not in _ACTS:
        raise errors.NotFound
    fields = await found.form()
    outcome = await acts.act(found, word, fields.get("key", ""), {}, user_id)
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(visits.inside(fields.get("next")))


@router.get("/requests")
async def requests(request: Request) -> Response:
    """Who asks to follow."""
    found = await visits.signed_in(request)
    page = await found.part(Edges).requests(found.user, limits.PAGE_LIMIT_DEFAULT, found.cursor)
    names = await found.part(Cards).names(found.user, (one["follower_id"] for one in page["data"]))
    return found.page("requests.html", rows=page["data"], names=names, next_cursor=page["next_cursor"])


@router.post("/requests/{user_id}/{word}")
async def answer(request: Request, user_id: str, word: str) -> Response:
    """Lets a user follow, or not."""
    found = await visits.signed_in(request)
    if word not in _ANSWERS:
        raise errors.NotFound
    fields = await found.form()
    outcome = await acts.act(found, _ANSWERS[word], fields.get("key", ""), {}, user_id)
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(f"{visits.HOME}/requests")


@router.get("/notifications")
async def notifications(request: Request) -> Response:
    """What the user is told, as far as it still holds."""
    found = await visits.signed_in(request)
    page = await found.part(Notifications).page(found.user, limits.PAGE_LIMIT_DEFAULT, found.cursor)
    names = await found.part(Cards).names(found.user, (one["actor_id"] for one in page["data"]))
    return found.page("notifications.html", rows=page["data"], names=names, next_cursor=page["next_cursor"])


@router.get("/settings")
async def settings(request: Request) -> Response:
    """One's name, who sees one's posts, whom one blocks and mutes."""
    found = await visits.signed_in(request)
    store = found.part(Posts).store
    ((*row,),) = await store.rows("author_by_id", {"user_id": found.user})
    given = {"viewer": found.user, "limit": limits.PAGE_LIMIT_MAX}
    hidden = await store.records("app_hidden", given)
    author = rendered_user(Author(**dict(zip(Author.__struct_fields__, row, strict=True))))
    return found.page("settings.html", author=author, hidden=hidden, rows_max=limits.PAGE_LIMIT_MAX)


@router.post("/settings")
async def change(request: Request) -> Response:
    """Changes what the form says, of the version that it showed: one of before opens no account that is private now."""
    found = await visits.signed_in(request)
    fields = await found.form()
    payload: dict[str, Any] = {"is_private": fields.get("is_private") == "on"}
    if name := fields.get("display_name", "").strip():
        payload["display_name"] = name
    version = fields.get("version", "")
    outcome = await acts.act(found, "change_profile", fields.get("key", ""), payload, version=version)
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(f"{visits.HOME}/settings")


@router.post("/erasure")
async def erase(request: Request) -> Response:
    """Erases the user for ever, who types its own id to confirm it."""
    found = await visits.signed_in(request)
    fields = await found.form()
    outcome = await acts.act(found, "erase_user", fields.get("key", ""), {"confirm": fields.get("confirm", "").strip()})
    if outcome.is_refused:
        return acts.refused(found, outcome)
    await found.known.end(found.who)
    return visits.go(visits.SIGN_IN)

"""The routes of posts, timelines, search, notifications and edges that read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.commands.stream_places import PlacedStream
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.social.edges import Edges
from ingress.social.home_streams import HomeStreams, asked_after
from ingress.social.notifications import Notifications
from ingress.social.posts import Posts
from ingress.social.public_snapshot import PublicSnapshot
from ingress.social.timelines import Timelines
from ingress.social.users import Users, user_of
from ingress.social.why import Why
from schemas import errors
from schemas.fields import validation
from schemas.social import limits
from schemas.social.service import MODERATOR, READ
from schemas.social.value_types import USER_ID

if TYPE_CHECKING:
    from ingress.identity.caller import Caller

router: Final = APIRouter()


@router.get("/v1/posts/{post_id}")
async def get_post(request: Request, post_id: str) -> Response:
    """A post that the caller may see."""
    caller = await calling.caller_of(request, READ)
    parts = parts_of(request)
    user = await parts.get(Users).present(caller)
    calling.require_id(post_id)
    found = await parts.get(Posts).get(user, post_id, is_moderator=MODERATOR in caller.scopes)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})


@router.get("/v1/posts/{post_id}/versions")
async def list_versions(request: Request, post_id: str) -> Response:
    """Its versions, newest first."""
    user = await user_of(request, READ)
    calling.require_id(post_id)
    return calling.json(await parts_of(request).get(Posts).versions(user, post_id, *calling.place(request)))


@router.get("/v1/posts/{post_id}/replies")
async def list_replies(request: Request, post_id: str) -> Response:
    """Its direct answers, oldest first, as far as the caller may see them."""
    user = await user_of(request, READ)
    calling.require_id(post_id)
    return calling.json(await parts_of(request).get(Timelines).replies(user, post_id, *calling.place(request)))


@router.get("/v1/posts/{post_id}/why")
async def why(request: Request, post_id: str) -> Response:
    """Why the caller sees it, or does not."""
    user = await user_of(request, READ)
    calling.require_id(post_id)
    return calling.json(await parts_of(request).get(Why).of(user, post_id))


@router.get("/v1/timelines/home")
async def home(request: Request) -> Response:
    """The caller's home."""
    caller = await calling.caller_of(request, READ)
    place = await _place(request, caller)  # whether the user is there, the home's own statement says
    return calling.json(await parts_of(request).get(Timelines).home(caller.user, *place))


@router.get("/v1/timelines/home/stream")
async def stream_home(request: Request) -> Response:
    """What comes home from now on (server-sent events); Last-Event-ID or ``after`` resumes."""
    caller = await calling.caller_of(request, READ)
    parts = parts_of(request)
    await parts.get(Users).present(caller)
    after = asked_after(request)
    streams = parts.get(HomeStreams)
    streams.admit(caller)
    return PlacedStream(streams.stream(caller, after), partial(streams.leave, caller))


@router.get("/v1/timelines/public")
async def public(request: Request) -> Response:
    """What all users may see; while Postgres is away, what they could see some seconds ago."""
    caller = await calling.caller_of(request, READ)
    limit, cursor = await _place(request, caller)
    parts = parts_of(request)
    snapshot = parts.get(PublicSnapshot)
    snapshot.asked()
    try:
        user = await parts.get(Users).present(caller)
        return calling.json(await parts.get(Timelines).public(user, limit, cursor))
    except errors.Unavailable:
        if cursor is not None or (page := snapshot.page(caller.user, limit)) is None:
            raise
        return calling.json(page)


@router.get("/v1/timelines/user/{user_id}")
async def of_user(request: Request, user_id: str) -> Response:
    """The posts of one author that the caller may see."""
    user = await user_of(request, READ)
    _require_user(user_id)
    return calling.json(await parts_of(request).get(Timelines).user(user, user_id, *calling.place(request)))


@router.get("/v1/timelines/thread/{post_id}")
async def thread(request: Request, post_id: str) -> Response:
    """A thread, as far as the caller may see it."""
    user = await user_of(request, READ)
    calling.require_id(post_id)
    return calling.json(await parts_of(request).get(Timelines).thread(user, post_id, *calling.place(request)))


@router.get("/v1/search")
async def search(request: Request) -> Response:
    """Posts with all words of ``q``."""
    user = await user_of(request, READ)
    words = reading.query(request, "q") or ""
    if reason := validation.clean_text(words, limits.SEARCH_TEXT_LENGTH_MAX):
        raise errors.InvalidCommand([{"field": "q", "reason": reason}], f"The query value q {reason}.")
    return calling.json(await parts_of(request).get(Timelines).search(user, words, *calling.place(request)))


@router.get("/v1/notifications")
async def notifications(request: Request) -> Response:
    """What the caller is told."""
    user = await user_of(request, READ)
    return calling.json(await parts_of(request).get(Notifications).page(user, *calling.place(request)))


@router.get("/v1/follows/requests")
async def follow_requests(request: Request) -> Response:
    """Who asks to follow the caller."""
    user = await user_of(request, READ)
    return calling.json(await parts_of(request).get(Edges).requests(user, *calling.place(request)))


@router.get("/v1/follows/{user_id}")
async def get_follow(request: Request, user_id: str) -> Response:
    """The caller's own edge."""
    user = await user_of(request, READ)
    _require_user(user_id)
    found = await parts_of(request).get(Edges).get(user, user_id)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})


async def _place(request: Request, caller: Caller) -> tuple[int, str | None]:
    """As ``calling.place``; a user who may not call hears that first. Raises Gone."""
    try:
        return calling.place(request)
    except errors.Rejected:
        await parts_of(request).get(Users).present(caller)
        raise


def _require_user(user_id: str) -> None:
    if not USER_ID.fullmatch(user_id):
        raise errors.NotFound

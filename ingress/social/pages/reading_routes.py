"""Pages that show posts: home and its stream, public, search, a user, a thread, versions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from dataflows.social.domain.records import Author, rendered_user
from ingress import limits as ingress_limits
from ingress.commands import calling
from ingress.commands.stream_places import PlacedStream
from ingress.social.home_streams import HomeStreams, asked_after
from ingress.social.moderation.moderation import Moderation
from ingress.social.pages import visit as visits
from ingress.social.pages.cards import Cards
from ingress.social.pages.session import COOKIE
from ingress.social.posts import Posts
from ingress.social.timelines import Timelines
from ingress.social.told import place_of_page
from ingress.social.why import Why
from schemas import errors
from schemas.fields import validation
from schemas.social import limits as social_limits
from schemas.social.moderation_operations import MODERATOR
from schemas.social.value_types import USER_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ingress.social.pages.visit import Visit

Json = dict[str, Any]
_PAGE: Final = ingress_limits.PAGE_LIMIT_DEFAULT

router: Final = visits.router()


@router.get("")
async def home(request: Request) -> Response:
    """One's home, with the composer."""
    found = await visits.signed_in(request)
    page = await found.part(Timelines).home(found.user, _PAGE, found.cursor)
    shown_until = None if found.cursor else place_of_page(page["data"])
    return await _listed(found, "home.html", page, shown_until=shown_until, draft="", problem=None)


@router.get("/stream")
async def stream(request: Request) -> Response:
    """What comes home from now on (server-sent events): the pages ask who is signed in, as often as a look is taken."""
    found = await visits.signed_in(request)
    streams, caller = found.part(HomeStreams), found.who.caller()
    streams.admit(caller)
    frames = _while_signed_in(found, streams.stream(caller, asked_after(request)))
    return PlacedStream(frames, partial(streams.leave, caller))


async def _while_signed_in(found: Visit, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    cookie = found.request.cookies.get(COOKIE)
    async for frame in frames:
        yield frame
        try:
            await found.known.session(cookie)
        except (errors.Unauthenticated, errors.Unavailable):
            return


@router.get("/public")
async def public(request: Request) -> Response:
    """What all users may see."""
    found = await visits.signed_in(request)
    page = await found.part(Timelines).public(found.user, _PAGE, found.cursor)
    return await _listed(found, "public.html", page)


@router.get("/search")
async def search(request: Request) -> Response:
    """Posts with all of the words; without words, the empty form."""
    found = await visits.signed_in(request)
    words = request.query_params.get("q", "").strip()
    if not words:
        return await _listed(found, "search.html", {"data": [], "next_cursor": None})
    if reason := validation.clean_text(words, social_limits.SEARCH_TEXT_LENGTH_MAX):
        raise errors.InvalidCommand([{"field": "q", "reason": reason}])
    page = await found.part(Timelines).search(found.user, words, _PAGE, found.cursor)
    return await _listed(found, "search.html", page, q=words)


@router.get("/users/{user_id}")
async def user(request: Request, user_id: str) -> Response:
    """A user, as far as it is there for the viewer; whom one blocks oneself, by its id alone."""
    found = await visits.signed_in(request)
    if not USER_ID.fullmatch(user_id):
        raise errors.NotFound
    given = {"viewer": found.user, "user_id": user_id}
    (towards,) = await found.part(Posts).store.records("app_towards", given)
    rows = await found.part(Posts).store.rows("author_seen", given)
    if not rows and not towards["is_blocked"]:
        raise errors.NotFound
    shown = rendered_user(Author(**dict(zip(Author.__struct_fields__, rows[0], strict=True)))) if rows else None
    page: Json = {"data": [], "next_cursor": None}
    if shown:
        page = await found.part(Timelines).user(found.user, user_id, _PAGE, found.cursor)
    return await _listed(found, "user.html", page, user_id=user_id, shown=shown, towards=towards)


@router.get("/posts/{post_id}")
async def thread(request: Request, post_id: str) -> Response:
    """A post in its thread, with a reply's form."""
    found = await visits.signed_in(request)
    post = await focus(found, post_id)
    page = await found.part(Timelines).thread(found.user, post_id, ingress_limits.PAGE_LIMIT_MAX, found.cursor)
    appeal = await _appeal(found, post)
    return await _listed(found, "thread.html", page, focus=post, appeal=appeal, draft="", problem=None)


@router.get("/posts/{post_id}/why")
async def why(request: Request, post_id: str) -> Response:
    """Why the reader sees a post, or does not."""
    found = await visits.signed_in(request)
    calling.require_id(post_id)
    return found.page("why.html", why=await found.part(Why).of(found.user, post_id))


@router.get("/posts/{post_id}/versions")
async def versions(request: Request, post_id: str) -> Response:
    """What a post said before, newest first."""
    found = await visits.signed_in(request)
    calling.require_id(post_id)
    page = await found.part(Posts).versions(found.user, post_id, ingress_limits.PAGE_LIMIT_MAX, found.cursor)
    return found.page("versions.html", post_id=post_id, rows=page["data"], next_cursor=page["next_cursor"])


async def focus(found: Visit, post_id: str) -> Json:
    """One post with all that its own page shows. Raises NotFound and Gone as the API does."""
    calling.require_id(post_id)
    post = await found.part(Posts).get(found.user, post_id, is_moderator=MODERATOR in found.who.scopes)
    (card,) = await found.part(Cards).of(found.user, [post])
    return post | card


async def _appeal(found: Visit, post: Json) -> str | None:
    """What has come of the author's appeal: there is one against a decision."""
    if post["moderation"] is None or post["author_id"] != found.user:
        return None
    return await found.part(Moderation).appeal_state(post["moderation"]["decision_id"])


async def _listed(found: Visit, template: str, page: Json, **context: Any) -> Response:
    """A page with a list of posts that its reader was authorized to see."""
    cards = found.part(Cards)
    posts = await cards.of(found.user, page["data"])
    names = await cards.names_of(found.user, posts)
    return found.page(template, posts=posts, names=names, next_cursor=page["next_cursor"], **context)

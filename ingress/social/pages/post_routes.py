"""What a user does to posts: publish, edit, delete, like, repost, report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.social.pages import acts
from ingress.social.pages import visit as visits
from ingress.social.pages.cards import Cards
from ingress.social.pages.reading_routes import focus
from ingress.social.posts import Posts
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.social.pages.visit import Visit

#: by the last word of a form's address: the operation that does it, and the one that takes it back
_REACTIONS: Final = {"likes": ("like_post", "unlike_post"), "reposts": ("repost_post", "unrepost_post")}
_ABOUT: Final = ("reply_to", "quote_of")
_CONFLICT: Final = 409

router: Final = visits.router()


@router.post("/posts")
async def publish(request: Request) -> Response:
    """Publishes what the composer holds; refused, the composer comes back with it."""
    found = await visits.signed_in(request)
    fields = await found.form()
    payload = {"text": _text(fields), "media_ids": fields.get("media_ids", "").split()} | {
        name: fields[name] for name in ("visibility", "reply_to", "quote_of") if fields.get(name)
    }
    try:
        outcome = await acts.act(found, "publish_post", fields.get("key", ""), payload)
    except errors.InvalidCommand as error:
        return await _again(found, fields, 422, acts.in_words(error.errors))
    if outcome.is_refused:
        return await _again(found, fields, outcome.status, outcome.refusal or "")
    if outcome.result is None:
        return found.page("pending.html", outcome.status)
    return visits.go(f"{visits.inside(fields.get('next'))}#{outcome.result['post_id']}")


@router.get("/compose")
async def compose(request: Request) -> Response:
    """The composer by itself: for a quote, or to answer from a list."""
    found = await visits.signed_in(request)
    return await _composer(found, dict(request.query_params))


@router.get("/posts/{post_id}/edit")
async def edit_form(request: Request, post_id: str) -> Response:
    """One's own post, to be changed or deleted. Another's is not there."""
    found = await visits.signed_in(request)
    post = await _own(found, post_id)
    return found.page("edit.html", post=post, kept=post["media_ids"], problem=None)


@router.post("/posts/{post_id}/edit")
async def edit(request: Request, post_id: str) -> Response:
    """The next version, of the version that the form showed; what is refused is given back as it was written."""
    found = await visits.signed_in(request)
    fields = await found.form()
    kept = [one for one in fields.get("media_ids", "").split() if fields.get(f"drop_{one}") != "on"]
    payload = {"text": _text(fields), "visibility": fields.get("visibility", ""), "media_ids": kept}
    try:
        outcome = await _on(found, "edit_post", fields, post_id, payload)
    except errors.InvalidCommand as error:
        outcome = acts.Outcome(status=422, refusal=acts.in_words(error.errors))
    if not outcome.is_refused:
        return visits.go(f"{visits.HOME}/posts/{post_id}")
    typed = {"text": payload["text"], "visibility": payload["visibility"]}
    post, said = await _own(found, post_id) | typed, outcome.refusal
    if outcome.status == _CONFLICT:
        said = f"{said} What you wrote is still here: look at the post as it is now before you save it again."
    return found.page("edit.html", outcome.status, post=post, kept=kept, problem=said)


@router.post("/posts/{post_id}/delete")
async def delete(request: Request, post_id: str) -> Response:
    """A tombstone; its text is nowhere any more."""
    found = await visits.signed_in(request)
    outcome = await _on(found, "delete_post", await found.form(), post_id, {})
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(visits.HOME)


@router.post("/posts/{post_id}/report")
async def report(request: Request, post_id: str) -> Response:
    """Tells moderators."""
    found = await visits.signed_in(request)
    fields = await found.form()
    payload: dict[str, Any] = {"object_id": post_id, "reason": fields.get("reason", "")}
    if comment := fields.get("comment", "").strip():
        payload["comment"] = comment
    outcome = await acts.act(found, "report_object", fields.get("key", ""), payload)
    if outcome.is_refused:
        return acts.refused(found, outcome)
    return found.page("told.html", said="Thank you. Moderators will look at it.", back=f"{visits.HOME}/posts/{post_id}")


@router.post("/posts/{post_id}/{reaction}")
async def react(request: Request, post_id: str, reaction: str) -> Response:
    """Likes or reposts, or takes it back; a script gets the card as it is now, everybody else the page."""
    found = await visits.signed_in(request)
    if reaction not in _REACTIONS:
        raise errors.NotFound
    fields = await found.form()
    operation = _REACTIONS[reaction][fields.get("is_on") == "yes"]
    outcome = await acts.act(found, operation, fields.get("key", ""), {}, post_id)
    if outcome.is_refused:
        return acts.refused(found, outcome)
    if not found.is_part:
        return visits.go(f"{visits.inside(fields.get('next')).partition('#')[0]}#{post_id}")
    post = await focus(found, post_id)
    return found.page("part_post.html", post=post, names=await found.part(Cards).names_of(found.user, [post]))


async def _on(
    found: Visit, name: str, fields: Mapping[str, str], post_id: str, payload: dict[str, Any]
) -> acts.Outcome:
    return await acts.act(found, name, fields.get("key", ""), payload, post_id, fields.get("version", ""))


async def _own(found: Visit, post_id: str) -> dict[str, Any]:
    post = await focus(found, post_id)
    if post["author_id"] != found.user:
        raise errors.NotFound
    return post


async def _again(found: Visit, fields: Mapping[str, str], status: int, problem: str) -> Response:
    """The composer with what was typed, also when what it answers or quotes has gone meanwhile."""
    kept = dict(fields)
    for name in _ABOUT:
        try:
            await _seen(found, fields.get(name))
        except (errors.NotFound, errors.Gone):
            del kept[name]
            problem = f"{problem} Sent again, it is a post of its own."
    return await _composer(found, kept, status, problem)


async def _composer(found: Visit, fields: Mapping[str, str], status: int = 200, problem: str | None = None) -> Response:
    """The composer with what it held, and for whom. What it answers or quotes is shown as far as it may be seen now."""
    about = {name: await _seen(found, fields.get(name)) for name in _ABOUT}
    answered = about["reply_to"] or {}
    names = await found.part(Cards).names_of(found.user, [post for post in about.values() if post])
    return found.page(
        "compose.html",
        status,
        draft=_text(fields),
        visibility=fields.get("visibility") or answered.get("visibility", "public"),
        media_ids=fields.get("media_ids", ""),
        problem=problem,
        names=names,
        next=visits.inside(fields.get("next")),
        **about,
    )


async def _seen(found: Visit, post_id: str | None) -> dict[str, Any] | None:
    if not post_id:
        return None
    calling.require_id(post_id)
    post = await found.part(Posts).get(found.user, post_id)
    (card,) = await found.part(Cards).of(found.user, [post])
    return post | card


def _text(fields: Mapping[str, str]) -> str:
    """What was typed: browsers send line ends as two characters."""
    return fields.get("text", "").replace("\r\n", "\n").strip()

"""What a user asks of the service itself: reports of what others show, copies of its own data, its appeals."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress import limits as ingress_limits
from ingress.commands import calling
from ingress.http.requests import reading
from ingress.http.streams import begun
from ingress.social.own_data.own_data import OwnData
from ingress.social.pages import acts
from ingress.social.pages import visit as visits
from ingress.social.pages.reading_routes import focus
from ingress.social.posts import Posts
from schemas import errors
from schemas.renderer import timestamp
from schemas.social.value_types import USER_ID

router: Final = visits.router()


@router.get("/report")
async def reporting(request: Request) -> Response:
    """The form of a report: of a user, or of a post, or of one of its media, all of which the reader may see."""
    found = await visits.signed_in(request)
    about = {name: request.query_params.get(name, "") for name in ("user", "post", "medium")}
    return found.page("report.html", **await _seen(found, about), about=about)


@router.post("/report")
async def report(request: Request) -> Response:
    """Tells moderators; what is not there for who reports is a 404, as it is to read."""
    found = await visits.signed_in(request)
    fields = await found.form()
    about = {name: fields.get(name, "") for name in ("user", "post", "medium")}
    seen = await _seen(found, about)
    payload: dict[str, Any] = {"object_id": seen["object_id"], "reason": fields.get("reason", "")}
    if comment := fields.get("comment", "").strip():
        payload["comment"] = comment
    outcome = await acts.act(found, "report_object", fields.get("key", ""), payload)
    if outcome.is_refused:
        return acts.refused(found, outcome)
    return found.page("told.html", said="Thank you. Moderators will look at it.", back=seen["back"])


async def _seen(found: visits.Visit, about: dict[str, str]) -> dict[str, str]:
    """What is reported, in words, and where it is shown. Raises NotFound for what the reader does not see."""
    if about["post"]:
        post = await focus(found, about["post"])
        media = [one["media_id"] for one in post["media"]]
        if about["medium"] and about["medium"] not in media:
            raise errors.NotFound
        number = media.index(about["medium"]) + 1 if about["medium"] else 0
        named = f"number {number} of the media of a post by @{post['author_id']}"
        said = named if number else f"a post by @{post['author_id']}"
        back = f"{visits.HOME}/posts/{about['post']}"
        return {"object_id": about["medium"] or about["post"], "said": said, "back": back}
    if not USER_ID.fullmatch(about["user"]):
        raise errors.NotFound
    given = {"viewer": found.user, "user_id": about["user"]}
    if not await found.part(Posts).store.rows("author_seen", given):
        raise errors.NotFound
    return {"object_id": about["user"], "said": f"@{about['user']}", "back": f"{visits.HOME}/users/{about['user']}"}


@router.get("/exports")
async def exports(request: Request) -> Response:
    """Copies of one's own data that were asked for."""
    found = await visits.signed_in(request)
    given = {"user_id": found.user, "limit": ingress_limits.PAGE_LIMIT_DEFAULT}
    rows = await found.part(Posts).store.rows("app_exports", given)
    made = [{"export_id": export_id, "created_at": timestamp(at)} for export_id, at in rows]
    return found.page("exports.html", rows=made)


@router.post("/exports")
async def ask_export(request: Request) -> Response:
    """Asks for one more."""
    found = await visits.signed_in(request)
    fields = await found.form()
    outcome = await acts.act(found, "request_export", fields.get("key", ""), {})
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(f"{visits.HOME}/exports")


@router.get("/exports/{export_id}/content")
async def export_content(request: Request, export_id: str) -> Response:
    """All that is one's own now, as a file: a JSON object a line."""
    found = await visits.signed_in(request)
    calling.require_id(export_id)
    data = found.part(OwnData)
    await data.export(found.user, export_id)
    lines = await begun(data.content(found.user))
    headers = calling.NO_STORE | {"Content-Disposition": 'attachment; filename="millrace-export.ndjson"'}
    return StreamingResponse(lines, headers=headers, media_type=reading.NDJSON[0])


@router.get("/appeals")
async def appeals(request: Request) -> Response:
    """What was decided about the user and what is its own, newest first, and what came of its appeals."""
    found = await visits.signed_in(request)
    given = {"user_id": found.user, "limit": ingress_limits.PAGE_LIMIT_MAX}
    rows = await found.part(Posts).store.records("app_decisions", given)
    shown = [row | {"created_at": timestamp(row["created_at"])} for row in rows]
    return found.page("appeals.html", rows=shown, rows_max=ingress_limits.PAGE_LIMIT_MAX)

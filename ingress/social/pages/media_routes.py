"""Media at the pages: the board of one's own, and what the composer's script asks for while it uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from dataflows.social.domain.media import ENDED
from ingress import limits
from ingress.commands import calling
from ingress.social.media.uploads import Uploads
from ingress.social.pager import Examined, Pager, Place
from ingress.social.pages import acts
from ingress.social.pages import visit as visits
from schemas import errors
from schemas.renderer import timestamp

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

Json = dict[str, Any]
_DIGITS_MAX: Final = 12

router: Final = visits.router()


class MediaBoard:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors, uploads: Uploads) -> None:
        self._store = store
        self._pager = Pager(cursors)
        self._uploads = uploads

    async def page(self, viewer: str, cursor: str | None) -> Json:
        """One's own media, newest first, each with where it is served."""

        async def examine(place: Place, count: int) -> list[Examined[Json]]:
            given = {"viewer": viewer, "at": place[0], "id": place[1], "count": count}
            rows = await self._store.records("app_media", given)
            return [Examined((row["created_at"], row["media_id"]), self._shown(row)) for row in rows]

        page = await self._pager.page(viewer, "app_media", limits.PAGE_LIMIT_DEFAULT, cursor, examine)
        return page.document(page.items)

    def _shown(self, row: Json) -> Json:
        may_end = row["post_id"] is None and row["scan_state"] not in ENDED
        shown = {"created_at": timestamp(row["created_at"]), "renditions": self._uploads.renditions(row)}
        return row | shown | {"may_end": may_end}


@router.get("/media")
async def board(request: Request) -> Response:
    """One's own media, and what became of each."""
    found = await visits.signed_in(request)
    page = await found.part(MediaBoard).page(found.user, found.cursor)
    return found.page("media.html", rows=page["data"], next_cursor=page["next_cursor"])


@router.post("/media")
async def begin(request: Request) -> Response:
    """Begins an upload, whose parts are of one size but for the last: where the bytes of the first one go."""
    found = await visits.signed_in(request)
    fields = await found.form()
    size = _count(fields.get("bytes", ""))
    payload: Json = {"mime": fields.get("mime", ""), "bytes": size, "sha256": fields.get("sha256", "")}
    if sums := fields.get("parts", "").split():
        each = _count(fields.get("part_bytes", ""))
        payload["parts"] = [{"bytes": min(each, size - n * each), "sha256": sha256} for n, sha256 in enumerate(sums)]
    outcome = await acts.act(found, "initiate_upload", fields.get("key", ""), payload)
    if outcome.result is None:
        return _not_done(outcome)
    return calling.json({"media_id": outcome.result["media_id"], "url": outcome.result["parts"][0]["url"]})


@router.post("/media/{media_id}/complete")
async def complete(request: Request, media_id: str) -> Response:
    """The bytes are there; from here on they are scanned."""
    found = await visits.signed_in(request)
    fields = await found.form()
    outcome = await acts.act(found, "complete_upload", fields.get("key", ""), {}, media_id)
    if outcome.result is None:
        return _not_done(outcome)
    return calling.json({"scan_state": outcome.result["scan_state"]})


@router.post("/media/{media_id}/delete")
async def delete(request: Request, media_id: str) -> Response:
    """Ends a medium that no post has; a script hears of it, everybody else sees the board."""
    found = await visits.signed_in(request)
    fields = await found.form()
    outcome = await acts.act(found, "delete_upload", fields.get("key", ""), {}, media_id)
    if found.is_part:
        return _not_done(outcome) if outcome.result is None else calling.json(outcome.result)
    return acts.refused(found, outcome) if outcome.is_refused else visits.go(visits.inside(fields.get("next")))


@router.get("/media/{media_id}")
async def state(request: Request, media_id: str) -> Response:
    """How far a medium of one's own is: what is missing of it, and a small picture of it when it is ready."""
    found = await visits.signed_in(request)
    calling.require_id(media_id)
    media = await found.part(Uploads).get(found.user, media_id)
    made = (media["rendition_manifest"] or {}).get("renditions", [])
    pictures = [one["url"] for one in made if one["mime"].startswith("image/")]
    missing = [{"number": one["number"], "url": one["url"]} for one in media["parts"] if one["url"]]
    picture = pictures[0] if pictures else None
    return calling.json({"scan_state": media["scan_state"], "missing": missing, "picture": picture})


def _not_done(outcome: acts.Outcome) -> Response:
    return calling.json({"problem": outcome.refusal or "Try again."}, status=outcome.status)


def _count(text: str) -> int:
    """Raises MalformedRequest for what is no number of bytes."""
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise errors.MalformedRequest("The form says no number of bytes.")
    return int(text)

"""Media at the pages: the board of one's own, and what the composer's script asks for while it uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

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
        return row | {"created_at": timestamp(row["created_at"]), "renditions": self._uploads.renditions(row)}


@router.get("/media")
async def board(request: Request) -> Response:
    """One's own media, and what became of each."""
    found = await visits.signed_in(request)
    page = await found.part(MediaBoard).page(found.user, found.cursor)
    return found.page("media.html", rows=page["data"], next_cursor=page["next_cursor"])


@router.post("/media")
async def begin(request: Request) -> Response:
    """Begins an upload in one part: where its bytes go."""
    found = await visits.signed_in(request)
    fields = await found.form()
    payload = {
        "mime": fields.get("mime", ""),
        "bytes": _count(fields.get("bytes", "")),
        "sha256": fields.get("sha256", ""),
    }
    outcome = await acts.act(found, "initiate_upload", fields.get("key", ""), payload)
    if outcome.result is None:
        return calling.json({"problem": outcome.refusal or "Try again."}, status=outcome.status)
    return calling.json({"media_id": outcome.result["media_id"], "url": outcome.result["parts"][0]["url"]})


@router.post("/media/{media_id}/complete")
async def complete(request: Request, media_id: str) -> Response:
    """The bytes are there; from here on they are scanned."""
    found = await visits.signed_in(request)
    fields = await found.form()
    outcome = await acts.act(found, "complete_upload", fields.get("key", ""), {}, media_id)
    if outcome.result is None:
        return calling.json({"problem": outcome.refusal or "Try again."}, status=outcome.status)
    return calling.json({"scan_state": outcome.result["scan_state"]})


@router.get("/media/{media_id}")
async def state(request: Request, media_id: str) -> Response:
    """How far a medium of one's own is, with a small picture of it when it is ready."""
    found = await visits.signed_in(request)
    calling.require_id(media_id)
    media = await found.part(Uploads).get(found.user, media_id)
    made = (media["rendition_manifest"] or {}).get("renditions", [])
    pictures = [one["url"] for one in made if one["mime"].startswith("image/")]
    return calling.json({"scan_state": media["scan_state"], "picture": pictures[0] if pictures else None})


def _count(text: str) -> int:
    """Raises MalformedRequest for what is no number of bytes."""
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise errors.MalformedRequest("The form says no number of bytes.")
    return int(text)

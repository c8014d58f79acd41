"""The media board: what is on its way and since when, what was refused and why, and which contents are. For operators.

Each decision is audited in its own transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits as ingress_limits
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import decisions
from schemas import errors, limits
from schemas.operators import decision_note
from schemas.social.media_operations import SHA256_HEX, content_of
from schemas.social.value_types import USER_ID

if TYPE_CHECKING:
    from ingress.http.store import Store

BOARD: Final = "/console/media"
_STAGES: Final = ("uploading", "scanning", "processing", "waiting_for_clamd", "stuck")
_CONFLICTS: Final = {
    "already_blocked": "The content is blocked already.",
    "not_waiting": "The medium waits for no scan.",
}

router: Final = visits.router()


class MediaDecisions:
    """What operators decide about contents and scans."""

    def __init__(self, audited_store: Store) -> None:
        self._store = audited_store

    async def made(self, query: str, done: str, person: str, note: str, **about: str) -> None:
        """Done and audited. Raises NotFound and StateConflict."""
        word = await self._store.word(query, {"person": person, "note": note} | about)
        decisions.require(word, done, _CONFLICTS)


@router.get("/media")
async def board(request: Request) -> Response:
    """By stage what is on its way, the oldest first; what was refused, and why; blocked contents."""
    async with visits.reading_of(request, "media", "media") as visit:
        limit = ingress_limits.CONSOLE_ROWS_MAX
        waiting, refused, blocked = await asyncio.gather(
            visit.console.records("media_open", limit=limit),
            visit.console.records("media_refused", limit=limit),
            visit.console.records("media_blocked", limit=limit),
        )
    stages = [(stage, [row for row in waiting if row["stage"] == stage]) for stage in _STAGES]
    return visit.page(
        "media_board.html",
        stages=stages,
        refused=refused,
        blocked=blocked,
        limit=limit,
        note_max=limits.NOTE_LENGTH_MAX,
    )


@router.post("/media/blocked")
async def block(request: Request) -> Response:
    """Refuses a content from now on. Raises StateConflict for one that is blocked."""
    async with visits.deciding(request, "media.block", "media") as (visit, fields):
        await _decide(visit, fields, "media_block", "blocked", sha256=content_of(fields.get("sha256", "")))
    return visits.go(f"{BOARD}#blocked")


@router.post("/media/blocked/{sha256}/lift")
async def unblock(request: Request, sha256: str) -> Response:
    """Takes a content again. Raises NotFound for one that is not blocked."""
    if not SHA256_HEX.fullmatch(sha256):
        raise errors.NotFound
    async with visits.deciding(request, "media.unblock", sha256) as (visit, fields):
        await _decide(visit, fields, "media_unblock", "lifted", sha256=sha256)
    return visits.go(f"{BOARD}#blocked")


@router.post("/media/{media_id}/retry")
async def retry(request: Request, media_id: str) -> Response:
    """Has a medium scanned and rendered again now, however often that failed. Raises StateConflict if none waits."""
    if not USER_ID.fullmatch(media_id):
        raise errors.NotFound
    async with visits.deciding(request, "media.retry", media_id) as (visit, fields):
        await _decide(visit, fields, "media_retry", "retried", media_id=media_id)
    return visits.go(BOARD)


async def _decide(visit: visits.Visit, fields: dict[str, str], query: str, done: str, **about: str) -> None:
    made = parts_of(visit.request).get(MediaDecisions)
    await made.made(query, done, visit.who.subject, decision_note.note_in(fields), **about)

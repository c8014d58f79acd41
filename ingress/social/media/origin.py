"""The media origin: parts of uploads come in by signed URLs, renditions go out. No token is taken here.

It is another origin than the API, so that nothing that a user uploads runs beside the API's pages. What it serves is
asked of Postgres for every request: what was hidden a moment ago is a 404 now. URLs are good as long as its clock says,
by which they were signed: that of this machine may be another.
"""

from __future__ import annotations

import asyncio
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import FileResponse, Response, StreamingResponse

from ingress import limits as ingress_limits
from ingress.http.store import Store
from ingress.identity.shares import Shares
from ingress.social.media.byte_ranges import asked_range, has_it
from schemas import errors
from schemas.social import limits as social_limits
from schemas.social.media_origin import MediaOrigin, Part, cache_keys
from sinks.objects.media_objects import Draft, media_objects, part_key

if TYPE_CHECKING:
    from starlette.requests import Request

_MEDIA_ID: Final = re.compile(r"md_[a-z0-9]{1,61}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}")
_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
}


class UrlInvalid(errors.Rejected):
    """The URL is not one that was given out for this part, or its time is over; ask for a fresh one."""

    code = "url_invalid"


class ChecksumMismatch(errors.Rejected):
    """The bytes are not those that were declared; nothing was changed."""

    code = "checksum_mismatch"


class _Rendition(Struct):
    name: str
    mime: str
    bytes: int


class _Manifest(Struct):
    renditions: list[_Rendition]


_manifest: Final = msgspec.json.Decoder(_Manifest)


class Origin:
    """One process of the origin."""

    def __init__(self, dsn: str, origin: MediaOrigin) -> None:
        self._origin = origin
        self._objects = media_objects(origin)
        self._store = Store(
            dsn,
            packages=("ingress.social.media",),
            pool_max=social_limits.MEDIA_POSTGRES_POOL_MAX,
            synchronous_commit="on",
        )
        self._places = Shares(social_limits.MEDIA_UPLOADS_MAX)  # of owners whose parts come in

    async def start(self) -> None:
        """Takes away what an edge before it left half written, and connects in the background."""
        await asyncio.to_thread(self._objects.forget_left_drafts)
        await self._store.open()

    async def close(self) -> None:
        """Disconnects. Call it when no request is open."""
        await self._store.close()

    async def why_not_ready(self) -> str | None:
        """None while media can be served."""
        try:
            async with asyncio.timeout(ingress_limits.READY_PROBE_TIMEOUT_S):
                await self._store.rows("media_alive", {})
        except (TimeoutError, errors.Unavailable):
            return "Postgres is away"
        return None

    async def put(self, request: Request) -> Response:
        """One part, as it was signed: kept once its bytes are the declared ones, else nothing is changed."""
        part, state = await self._signed_part(request)
        if state != "initiated":
            raise errors.StateConflict("The upload has been completed, or has ended.", state)
        if not self._places.take(part.owner_id):
            raise errors.Overloaded("Too many parts of this owner are under way here; put this one again later.")
        try:
            await self._take_in(request, part)
            given = {"media_id": part.media_id, "number": part.number}
            if not await self._store.rows("media_part_received", given):  # completed meanwhile: nobody needs its parts
                await asyncio.to_thread(self._objects.forget_parts, part.media_id)
                raise errors.StateConflict("The upload has been completed, or has ended.")
        except OSError as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        finally:
            self._places.give_back(part.owner_id)
        return Response(status_code=204, headers={"Cache-Control": "no-store"})

    async def get(self, request: Request) -> Response:
        """A rendition that may be seen now, by everybody or by this signature; else a 404 that tells nothing.

        What one has of it is asked after that: a 304 would tell that it is still there. Its path never has other bytes.
        """
        media_id, said, name = (str(request.path_params[key]) for key in ("media_id", "access_version", "name"))
        if not _MEDIA_ID.fullmatch(media_id) or not _VERSION.fullmatch(said):
            raise errors.NotFound
        rows = await self._store.rows("media_view", {"media_id": media_id})
        if not rows:
            raise errors.NotFound
        ((access_version, is_served, is_public, manifest, owner_id, post_id, now),) = rows
        if not is_served or int(said) != access_version:
            raise errors.NotFound
        query, is_signed = _query(request), bool(request.url.query)
        if is_signed and not self._origin.admits_view(media_id, access_version, name, query, now):
            raise errors.NotFound
        if not is_signed and not is_public:
            raise errors.NotFound
        made = next((one for one in _manifest.decode(manifest).renditions if one.name == name), None)
        if made is None:
            raise errors.NotFound
        if is_signed:
            left_s = max(0, min(social_limits.MEDIA_PUBLIC_AGE_S, int(query["expires"]) - int(now)))
            caching = f"private, max-age={left_s}, immutable"
        else:
            caching = f"public, max-age={social_limits.MEDIA_PUBLIC_AGE_S}, immutable"
        known_by = cache_keys(media_id, post_id, owner_id)
        headers = _SAFE | {"Cache-Control": caching, "xkey": known_by, "Accept-Ranges": "bytes", "ETag": f'"{name}"'}
        if has_it(request.headers.getlist("if-none-match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return await self._served(request, media_id, made, headers)

    async def _take_in(self, request: Request, part: Part) -> None:
        with self._objects.draft(part.size) as draft:
            await _read(request, draft)
            if not await asyncio.to_thread(draft.keep, part_key(part.media_id, part.number), part.sha256):
                raise ChecksumMismatch

    async def _served(self, request: Request, media_id: str, made: _Rendition, headers: dict[str, str]) -> Response:
        """The bytes, or those of them that are asked for, from where they lie.

        Raises NotFound, RangeNotSatisfiable, Unavailable.
        """
        length = {"Content-Length": str(made.bytes)}
        if request.method == "HEAD":
            return Response(headers=headers | length, media_type=made.mime)
        said, path = request.headers.get("range"), self._objects.rendition_file(media_id, made.name)
        if said is None and path is not None:
            return FileResponse(path, headers=headers, media_type=made.mime)
        part = asked_range(said, request.headers.get("if-range"), headers["ETag"], made.bytes)
        if part is not None:
            start, stop = part
            length = {"Content-Length": str(stop - start), "Content-Range": f"bytes {start}-{stop - 1}/{made.bytes}"}
        pieces = self._objects.rendition_chunks(media_id, made.name, part)
        try:
            first = await asyncio.to_thread(next, pieces, b"")
        except FileNotFoundError as error:
            raise errors.NotFound from error
        except OSError as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        return StreamingResponse(chain((first,), pieces), 206 if part else 200, headers | length, made.mime)

    async def _signed_part(self, request: Request) -> tuple[Part, str]:
        """The part that a URL of ours names, and the state of its upload. Raises UrlInvalid."""
        media_id, said = str(request.path_params["media_id"]), str(request.path_params["number"])
        if not _MEDIA_ID.fullmatch(media_id) or not _NUMBER.fullmatch(said):
            raise UrlInvalid
        given: dict[str, Any] = {"media_id": media_id, "number": int(said)}
        rows = await self._store.rows("media_part", given)
        if not rows:
            raise UrlInvalid
        ((owner_id, mime, state, size, sha256, now),) = rows
        part = Part(media_id=media_id, owner_id=owner_id, number=int(said), size=size, sha256=sha256, mime=mime)
        if not self._origin.admits_part(part, _query(request), now):
            raise UrlInvalid
        return part, state


async def _read(request: Request, draft: Draft) -> None:
    """The body into the draft. Raises ChecksumMismatch as soon as it is longer than was declared."""
    pieces: list[bytes] = []
    held = 0
    async for chunk in request.stream():
        pieces.append(chunk)
        held += len(chunk)
        if held >= social_limits.MEDIA_HELD_BYTES:
            await _write(draft, pieces)
            pieces, held = [], 0
    await _write(draft, pieces)


async def _write(draft: Draft, pieces: list[bytes]) -> None:
    """Hashed and written beside the loop, which serves other requests meanwhile."""
    if not await asyncio.to_thread(lambda: all(map(draft.write, pieces))):
        raise ChecksumMismatch


def _query(request: Request) -> dict[str, str]:
    """The query as it stands; what names a field twice is no URL of ours."""
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    return found if len(found) == len(pairs) else {}

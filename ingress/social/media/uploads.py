"""Uploads in the API: what their owner sees of them, with the URLs that only the ingress can sign.

A URL is no part of a stored answer: it is made anew of what is stored, so that a retry of the first call has the same
bytes, and what was stored admits nobody. Until when it is good is told by the database's clock, as the origin sees it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas import errors, limits
from schemas.renderer import timestamp
from schemas.social import limits as social_limits
from schemas.social.media_origin import MediaOrigin, Part
from sinks.objects.media_objects import media_objects

if TYPE_CHECKING:
    from ingress.commands.envelope import Request
    from ingress.http.store import Store

Json = dict[str, Any]
_S_US: Final = 1_000_000
_COMPLETE: Final = "complete_upload"
_INITIATE: Final = "initiate_upload"
_json: Final = msgspec.json.Encoder()


class Uploads:
    """Those of one process."""

    def __init__(self, store: Store, origin: MediaOrigin) -> None:
        self._store = store
        self._origin = origin
        self._objects = media_objects(origin)

    @staticmethod
    def are_completed(request: Request) -> bool:
        """Whether the call ends an upload, so that its parts must be put together first."""
        return request.operation.name == _COMPLETE

    async def assembled(self, owner_id: str, request: Request) -> str:
        """What came of putting the parts together; again, it finds what is there. "" for no open one of one's own."""
        asked = {"media_id": request.payload["media_id"], "user_id": owner_id}
        rows = await self._store.records("media_to_assemble", asked)
        if not rows:
            return ""
        ((media,), missing) = rows, rows[0]["missing"]
        if missing:
            return "part_missing"
        media_id, sha256 = media["media_id"], media["sha256"]
        try:
            made = await asyncio.to_thread(self._objects.assemble, media_id, media["parts"], media["size"], sha256)
            # it ended meanwhile, by an erasure or in a day, and whoever took its bytes away found none of these
            if (True,) in await self._store.rows("media_has_ended", {"media_id": media_id}):
                await asyncio.to_thread(self._objects.forget, media_id, sha256)
        except OSError as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        return made

    def shown(self, request: Request, body: bytes) -> bytes:
        """The stored answer to an initiated upload, with its parts and their URLs: the same for every retry."""
        if request.operation.name != _INITIATE:
            return body
        answer = msgspec.json.decode(body)
        media = answer["result"]
        expires = -(-media["created_at_us"] // _S_US) + media["expires_in_s"]
        said = request.payload["parts"] or [{"bytes": media["bytes"], "sha256": media["sha256"]}]
        parts = []
        for number, one in enumerate(said, 1):
            nonce = hashlib.sha256(f"{media['media_id']}\x1f{number}".encode()).hexdigest()[:24]
            part = _part(media, number, one["bytes"], one["sha256"])
            parts.append(self._shown_part(part, expires, nonce, is_received=False))
        answer["result"] = _public(media) | {"parts": parts}
        return _json.encode(answer)

    async def get(self, owner_id: str, media_id: str) -> Json:
        """An upload of one's own, with fresh URLs of the parts that are missing. Raises NotFound."""
        rows = await self._store.records("media_of_owner", {"media_id": media_id, "user_id": owner_id})
        if not rows:
            raise errors.NotFound
        (media,) = rows
        parts = await self._store.records("media_parts", {"media_id": media_id})
        expires = media["now_s"] + max(media["expires_in_s"], social_limits.MEDIA_FRESH_URL_S)
        is_open = media["scan_state"] == "initiated"
        shown = [
            self._shown_part(
                _part(media, one["number"], one["size"], one["sha256"]),
                expires,
                secrets.token_hex(12),
                is_received=one["received"],
                is_open=is_open,
            )
            for one in parts
        ]
        manifest = media["manifest"] if media["is_served"] else None
        return _public(media) | {
            "parts": shown,
            "post_id": media["attached_post_id"],
            "rendition_manifest": self._manifest(media, manifest),
        }

    def renditions(self, media: Json) -> list[Json]:
        """What is served of a medium, each with a URL for who asked: a row of ``media_access``. Empty when hidden."""
        if not media["is_served"] or media["manifest"] is None:
            return []
        expires = None if media["is_public"] else media["now_s"] + limits.MEDIA_VIEW_TTL_S
        made: list[Json] = msgspec.json.decode(media["manifest"])["renditions"]
        return [
            one | {"url": self._origin.view_url(media["media_id"], media["access_version"], one["name"], expires)}
            for one in made
        ]

    async def of_posts(self, viewer: str, post_ids: list[str]) -> dict[str, list[Json]]:
        """The media of posts, in their order; none of a post that was hidden from the viewer since it was read."""
        found: dict[str, list[Json]] = {post_id: [] for post_id in post_ids}
        if post_ids:
            for media in await self._store.records("media_of_posts", {"viewer": viewer, "post_ids": post_ids}):
                if renditions := self.renditions(media):
                    one = {"media_id": media["media_id"], "mime": media["mime"], "renditions": renditions}
                    found[media["post_id"]].append(one)
        return found

    def _manifest(self, media: Json, manifest: str | None) -> Json | None:
        if manifest is None:
            return None
        return {"version": msgspec.json.decode(manifest)["version"], "renditions": self.renditions(media)}

    def _shown_part(self, part: Part, expires: int, nonce: str, *, is_received: bool, is_open: bool = True) -> Json:
        is_wanted = is_open and not is_received
        return {
            "number": part.number,
            "bytes": part.size,
            "sha256": part.sha256,
            "received": is_received,
            "url": self._origin.part_url(part, expires, nonce) if is_wanted else None,
            "expires_at": timestamp(expires * _S_US) if is_wanted else None,
        }


def _part(media: Json, number: int, size: int, sha256: str) -> Part:
    return Part(
        media_id=media["media_id"],
        owner_id=media["owner_id"],
        number=number,
        size=size,
        sha256=sha256,
        mime=media["mime"],
    )


def _public(media: Json) -> Json:
    return {
        "id": media["media_id"],
        "media_id": media["media_id"],
        "object": "media",
        "owner_id": media["owner_id"],
        "mime": media["mime"],
        "bytes": media["bytes"],
        "sha256": media["sha256"],
        "scan_state": media["scan_state"],
        "rendition_manifest": None,
        "version": media["version"],
    }

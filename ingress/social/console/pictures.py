"""The pictures of a case, for who has it or may decide an appeal, and nobody else: each look is audited first.

They are renditions, which are made of scanned bytes alone by our own encoder; a source is never shown. They come from
the desk itself, so that its content security policy names no other place, and nothing may run in them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from schemas import errors
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import media_objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.http.store import Store

Json = dict[str, Any]
_SHOWN: Final = ("media_id", "mime", "scan_state", "is_ready", "may_look")
_PICTURES: Final = ("image/webp", "image/png", "image/jpeg", "image/gif")
#: of the answer with the bytes: nothing runs, nobody keeps or embeds them
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


class _Rendition(Struct):
    name: str
    mime: str


class _Manifest(Struct):
    renditions: list[_Rendition]


_manifest: Final = msgspec.json.Decoder(_Manifest)


class Pictures:
    """Those of one process."""

    def __init__(self, store: Store, origin: MediaOrigin) -> None:
        self._store = store
        self._origin = origin
        self._objects = media_objects(origin)

    async def of_object(self, object_id: str, moderator: str, asked: str) -> list[Json]:
        """The media of an object, and whether this moderator ``may_look``: who has its case, or may decide an appeal.

        Then the one that is ``asked`` for has a ``url``, for a minute.
        """
        return [
            {name: one[name] for name in _SHOWN}
            | {"url": self._url(object_id, one, moderator) if one["media_id"] == asked else None}
            for one in await self._of(object_id, moderator)
        ]

    async def look(self, object_id: str, media_id: str, moderator: str, query: Mapping[str, str]) -> tuple[bytes, str]:
        """The bytes of a picture and their type. Raises NotFound where the URL or the case is not the moderator's."""
        found = next((one for one in await self._of(object_id, moderator) if one["media_id"] == media_id), None)
        if found is None or not found["may_look"]:
            raise errors.NotFound
        if not self._origin.admits_look(object_id, media_id, moderator, query, found["now_s"]):
            raise errors.NotFound
        pictures = [one for one in _manifest.decode(found["manifest"]).renditions if one.mime in _PICTURES]
        if not pictures:
            raise errors.NotFound
        try:
            return await asyncio.to_thread(self._read, media_id, pictures[-1].name), pictures[-1].mime
        except FileNotFoundError as error:
            raise errors.NotFound from error
        except OSError as error:
            raise errors.Unavailable(cause=type(error).__name__) from error

    def _read(self, media_id: str, name: str) -> bytes:
        return b"".join(self._objects.rendition_chunks(media_id, name))

    async def _of(self, object_id: str, moderator: str) -> list[Json]:
        return await self._store.records("desk_pictures", {"id": object_id, "moderator": moderator})

    def _url(self, object_id: str, medium: Json, moderator: str) -> str | None:
        if not medium["may_look"]:
            return None
        expires = int(medium["now_s"]) + limits.MODERATION_LOOK_S
        return f"{medium['media_id']}?{self._origin.look_query(object_id, medium['media_id'], moderator, expires)}"

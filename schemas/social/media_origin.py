"""URLs of the media origin, signed: where parts are uploaded to, and where renditions are served from.

A part's URL is good for one part of one upload: owner, length, sha256 and type are under its signature, so that what it
admits can only be the bytes that were declared. A rendition's URL has the access version of its medium in the path:
whatever hides the medium raises that version, and every older URL leads nowhere.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from schemas import limits

_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_EXPIRES: Final = re.compile(r"[1-9][0-9]{9,10}")
_NONCE: Final = re.compile(r"[a-z0-9]{16,32}")
_PART_QUERY: Final = frozenset({"expires", "nonce", "signature"})
_VIEW_QUERY: Final = frozenset({"expires", "signature"})


class Part(Struct, frozen=True, kw_only=True):
    """What one part of an upload is, and whose: all of it is signed."""

    media_id: str
    owner_id: str
    number: int
    size: int
    sha256: str
    mime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket that speaks S3, and who we are there. An empty endpoint is that of the region."""

    url: str  # s3://bucket/prefix
    endpoint: str
    region: str
    key_id: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOrigin:
    """Where media are: public addresses, key of URLs, folder of drafts, and of objects where there is no bucket."""

    url: str  # of renditions
    uploads_url: str  # of parts, which no cache keeps: one in front would only copy every byte twice more
    key: bytes = field(repr=False)
    folder: Path
    bucket: Bucket | None = None
    caches: tuple[str, ...] = ()  # in front of the origin, that take purges

    @property
    def purge_key(self) -> str:
        """What caches know a purge of ours by."""
        return hmac.digest(self.key, b"purge", "sha256").hex()

    def part_url(self, part: Part, expires: int, nonce: str) -> str:
        """Where this part is put until ``expires`` (seconds since the epoch)."""
        query = {"expires": expires, "nonce": nonce, "signature": self._sign(*_of_part(part), expires, nonce)}
        return f"{self.uploads_url}/uploads/{part.media_id}/{part.number}?{urlencode(query)}"

    def admits_part(self, part: Part, query: Mapping[str, str], now: float) -> bool:
        """Whether this query is one that we signed for this part, and in time."""
        expires, nonce = query.get("expires", ""), query.get("nonce", "")
        if query.keys() != _PART_QUERY or not _NONCE.fullmatch(nonce) or not _is_due(expires, now):
            return False
        return self._is_signed(query["signature"], *_of_part(part), int(expires), nonce)

    def view_url(self, media_id: str, access_version: int, name: str, expires: int | None) -> str:
        """Where a rendition is seen: by everybody, or, signed, until ``expires``."""
        url = f"{self.url}/media/{media_id}/{access_version}/{name}"
        if expires is None:
            return url
        signature = self._sign("view", media_id, access_version, name, expires)
        return f"{url}?{urlencode({'expires': expires, 'signature': signature})}"

    def admits_view(self, media_id: str, access_version: int, name: str, query: Mapping[str, str], now: float) -> bool:
        """Whether this query is one that we signed for this rendition, and in time."""
        expires = query.get("expires", "")
        if query.keys() != _VIEW_QUERY or not _is_due(expires, now) or int(expires) > now + limits.MEDIA_VIEW_TTL_S + 1:
            return False
        return self._is_signed(query["signature"], "view", media_id, access_version, name, int(expires))

    def look_query(self, object_id: str, media_id: str, moderator: str, expires: int) -> str:
        """What admits this moderator to the picture of a case, at the desk, until ``expires``."""
        signature = self._sign("look", object_id, media_id, moderator, expires)
        return urlencode({"expires": expires, "signature": signature})

    def admits_look(self, object_id: str, media_id: str, moderator: str, query: Mapping[str, str], now: float) -> bool:
        """Whether this query is one that we gave this moderator for this picture of a case, and in time."""
        expires = query.get("expires", "")
        if query.keys() != _VIEW_QUERY or not _is_due(expires, now):
            return False
        return self._is_signed(query["signature"], "look", object_id, media_id, moderator, int(expires))

    def _sign(self, *said: str | int) -> str:
        text = "\x1f".join(map(str, said)).encode()
        return base64.urlsafe_b64encode(hmac.digest(self.key, text, "sha256")).rstrip(b"=").decode()

    def _is_signed(self, signature: str, *said: str | int) -> bool:
        return bool(_SIGNATURE.fullmatch(signature)) and hmac.compare_digest(signature, self._sign(*said))


def cache_keys(*object_ids: str) -> str:
    """What caches know a copy by, with spaces between: its medium, post and author. None of them has a space."""
    return " ".join(f"object:{object_id}" for object_id in object_ids if object_id)


def _of_part(part: Part) -> tuple[str | int, ...]:
    return ("part", part.media_id, part.owner_id, part.number, part.size, part.sha256, part.mime)


def _is_due(expires: str, now: float) -> bool:
    return bool(_EXPIRES.fullmatch(expires)) and now < int(expires)

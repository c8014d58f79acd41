"""Uploads as clients make them, and pictures that are each another."""

from __future__ import annotations

import hashlib
import io
import random
from typing import TYPE_CHECKING, Any

import httpx
from PIL import Image

from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from tests.worlds.social_system import SocialUser

Json = dict[str, Any]
FINAL = frozenset({"ready", "infected", "rejected", "checksum_failed", "expired", "deleted", "taken_down"})


def picture(side: int = 40) -> bytes:
    """A PNG that nobody has seen."""
    image = Image.frombytes("RGB", (side, side), random.randbytes(3 * side * side))
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def begin(user: SocialUser, data: bytes, mime: str = "image/png", cut: int = 0, **fields: Any) -> Json:
    """An upload in one part, or in two."""
    payload: Json = {"mime": mime, "bytes": len(data), "sha256": sha(data)}
    if cut:
        payload["parts"] = [{"bytes": len(part), "sha256": sha(part)} for part in (data[:cut], data[cut:])]
    return user.do("POST", "/v1/media/uploads", payload | fields)


def put(url: str, data: bytes) -> int:
    return httpx.put(url, content=data, timeout=patient(20), trust_env=False).status_code


def path_of(media: Json) -> str:
    return f"/v1/media/uploads/{media['media_id']}"


def uploaded(user: SocialUser, data: bytes, mime: str = "image/png") -> Json:
    """Completed, and about to be scanned."""
    media = begin(user, data, mime)
    assert put(media["parts"][0]["url"], data) == 204
    return user.do("POST", f"{path_of(media)}/complete")


def scanned(user: SocialUser, media: Json, state: str = "ready") -> Json:
    """As it is when its scan is over."""

    def ended() -> Json | None:
        found = user.read(path_of(media))
        return found if found["scan_state"] in FINAL else None

    found = eventually(ended, 60, what="the scan is over")
    assert found["scan_state"] == state, found
    return found


def ready(user: SocialUser, data: bytes | None = None) -> Json:
    return scanned(user, uploaded(user, data or picture()))


def fetch(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.get(url, headers=headers, timeout=patient(20), trust_env=False)


def urls_of(reader: SocialUser, post: Json) -> list[str]:
    """Where the media of a post are for this reader."""
    media = reader.read(f"/v1/posts/{post['post_id']}")["media"]
    return [rendition["url"] for one in media for rendition in one["renditions"]]


def statuses(urls: list[str]) -> set[int]:
    return {fetch(url).status_code for url in urls}

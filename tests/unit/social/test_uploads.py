"""What an ingress does with the bytes of uploads: nothing of them is left of what has ended."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ingress.social.media.uploads import Uploads
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import media_objects, part_key

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"all of it"
SHA256 = hashlib.sha256(DATA).hexdigest()


class Table:
    """An upload whose parts are there, which ends while they are put together, or does not."""

    def __init__(self, has_ended: bool) -> None:
        self._has_ended = has_ended

    async def records(self, *_: object) -> list[dict[str, Any]]:
        return [{"media_id": "md_1", "parts": 1, "size": len(DATA), "sha256": SHA256, "missing": False}]

    async def rows(self, *_: object) -> list[tuple[Any, ...]]:
        return [(self._has_ended,)]


@pytest.mark.parametrize("has_ended", [False, True])
def test_bytes_of_an_upload_that_ends_meanwhile_do_not_stay(tmp_path: Path, has_ended: bool) -> None:
    """An erasure may have been certified already: who took everything away found no whole, and looks no more."""
    place = MediaOrigin(url="", uploads_url="", key=b"k" * 32, folder=tmp_path)
    objects = media_objects(place)
    with objects.draft(len(DATA)) as draft:
        assert draft.write(DATA)
        assert draft.keep(part_key("md_1", 1), SHA256)
    uploads = Uploads(Table(has_ended), place)  # type: ignore[arg-type]
    request: Any = SimpleNamespace(payload={"media_id": "md_1"})
    assert asyncio.run(uploads.assembled("u_1", request)) == "ok"
    assert objects.holds("md_1", SHA256) is not has_ended

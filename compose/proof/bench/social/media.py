"""Media: parts into the upload edge beside bare SHA-256, and renditions of a core beside bare Pillow."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from PIL import Image

from compose.proof.bench.cpu import cpu_seconds
from compose.proof.bench.goals import at_least
from dataflows.social.media.rendering import render
from dataflows.social.media.sandboxes import Sandboxes
from ingress import limits as ingress_limits
from schemas.social import limits as social_limits
from sinks.objects.folder_store import FolderStore
from sinks.objects.media_objects import MediaObjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.bench.social.people import People
    from compose.proof.kit.own_stack import OwnStack

_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS: Final = 24
_SENDERS: Final = 4
_MB: Final = 1_000_000
_UPLOAD_GOAL: Final = 200.0
_PICTURE: Final = (4_000, 3_000)
_PICTURES: Final = 4
_RENDITION_GOAL: Final = 0.7
_MS: Final = 1_000
_TAKEN_IN: Final = 204


def uploads(people: People, stack: OwnStack) -> dict[str, Any]:
    """Parts of 8 MiB, each checked and on disk before it is answered; processor time of who sends and of who takes."""
    parts = [os.urandom(_PART_BYTES) for _ in range(_PARTS)]
    size, began = _PARTS * _PART_BYTES, time.monotonic()
    sums = [hashlib.sha256(part).hexdigest() for part in parts]
    bare = size / _MB / (time.monotonic() - began)
    whole = hashlib.sha256(b"".join(parts))
    said = {
        "mime": "video/mp4",
        "bytes": size,
        "sha256": whole.hexdigest(),
        "parts": [{"bytes": _PART_BYTES, "sha256": one} for one in sums],
    }
    media = people.send(people.token("u_uploader"), "POST", "/v1/media/uploads", said)
    urls = [part["url"] for part in media["parts"]]
    shares = [(urls[n::_SENDERS], parts[n::_SENDERS]) for n in range(_SENDERS)]
    taking = {name: list(stack.pids(name).values()) for name in ("social_media", "media_cache")}
    with ThreadPoolExecutor(_SENDERS) as pool:
        sent, taken, began = _spent(), sum(cpu_seconds(taking).values()), time.monotonic()
        list(pool.map(_send, shares))
        took = time.monotonic() - began
    return {
        **at_least("upload_mb_per_s", size / _MB / took, _UPLOAD_GOAL),
        "upload_core_ms_per_mb": round((sum(cpu_seconds(taking).values()) - taken) * _MS / (size / _MB), 2),
        "sender_core_ms_per_mb": round((_spent() - sent) * _MS / (size / _MB), 2),
        "bare_sha256_mb_per_s": round(bare),
    }


def _send(share: tuple[list[str], list[bytes]]) -> None:
    """Over one connection and by bare sockets: who sends takes its time from the cores that it measures."""
    place = urlsplit(share[0][0])
    with closing(http.client.HTTPConnection(place.netloc, timeout=ingress_limits.RESULT_WAIT_MAX_S)) as connection:
        for url, part in zip(*share, strict=True):
            connection.request("PUT", url.removeprefix(f"http://{place.netloc}"), body=part)
            answer = connection.getresponse()
            if answer.status != _TAKEN_IN:
                raise ValueError(f"a part was answered with {answer.status}: {answer.read()!r}")
            answer.read()


def renditions() -> dict[str, Any]:
    """A photograph of 12 megapixels: sandboxed, checked and kept, beside the same two pictures made by Pillow alone."""
    photograph = io.BytesIO()
    noise = Image.effect_noise((500, 375), 60).resize(_PICTURE, Image.Resampling.BICUBIC)
    Image.merge("RGB", (noise, noise.rotate(180), noise)).save(photograph, "JPEG", quality=90)
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder, Sandboxes() as sandboxes:
        source = Path(folder) / "source"
        source.write_bytes(photograph.getvalue())
        objects = MediaObjects(FolderStore(Path(folder) / "objects"), Path(folder) / "objects" / "drafts")

        def ours(n: int) -> None:
            (work := Path(folder) / f"work{n}").mkdir()
            if not render(sandboxes, objects, f"md_{n}", source, "image/jpeg", work):
                raise ValueError("no rendition was made")

        made, bare = _core_seconds(ours), _core_seconds(lambda _: _bare(source, Path(folder)))
    return {
        "renditions_per_core_s": round(2 / made, 2),
        "bare_pillow_per_core_s": round(2 / bare, 2),
        **at_least("of_bare_pillow", bare / made, _RENDITION_GOAL),
    }


def _bare(source: Path, folder: Path) -> None:
    for side in (social_limits.MEDIA_THUMB_PIXELS, social_limits.MEDIA_FULL_PIXELS):
        with Image.open(source) as image:
            image.thumbnail((side, side), Image.Resampling.LANCZOS)
            image.save(folder / "bare.webp", quality=82, method=4)


def _core_seconds(work: Callable[[int], None]) -> float:
    """Processor time of one of several, those of processes that it started too."""
    before = _spent()
    for n in range(_PICTURES):
        work(n)
    return (_spent() - before) / _PICTURES


def _spent() -> float:
    """Of this process, of the sandboxes that it keeps, and of those that each of these had for one medium."""
    (spent,) = cpu_seconds({"": [os.getpid()]}).values()
    return spent

"""Renditions of a source, made by a sandboxed process: its answer is believed only as far as its files show it."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from dataflows.social.media.sandbox import EITHER, UNDECODABLE, Order
from dataflows.social.media.sandboxes import Sandboxes, Undecided, ended_by
from schemas.social import limits
from sinks.objects.folder_store import chunks
from sinks.objects.media_objects import MediaObjects

_SIDE_MAX: Final = 10_000
_REFUSALS: Final = frozenset({UNDECODABLE, -signal.SIGXCPU, -signal.SIGXFSZ})


class _Made(Struct):
    name: str
    file: str
    mime: str
    width: int
    height: int


class Rendition(Struct):
    """One rendition as the manifest lists it."""

    name: str
    width: int
    height: int
    mime: str
    bytes: int
    sha256: str


_made: Final = msgspec.json.Decoder(list[_Made])


def _always() -> bool:
    return True


def render(
    sandboxes: Sandboxes,
    objects: MediaObjects,
    media_id: str,
    source: Path,
    mime: str,
    folder: Path,
    is_wanted: Callable[[], bool] = _always,
) -> list[Rendition] | None:
    """The renditions, kept; None when the source is not decodable as ``mime``, or past a bound.

    Raises Undecided when the medium or the machine may be what fails, OSError when it is the machine (Killed when that
    is only likely), Unwanted when ``is_wanted`` has said no.
    """
    wait_s = limits.MEDIA_RENDERING_WAIT_S if mime.startswith("image/") else limits.MEDIA_VIDEO_WAIT_S
    answer = sandboxes.run(Order(str(source), str(folder), mime), wait_s, is_wanted)
    if is_refused(answer.status):
        return None
    try:
        made = _made.decode(answer.said)
    except msgspec.DecodeError:
        return None
    kept = [_kept(objects, media_id, one, folder / Path(one.file).name) for one in made]
    return [one for one in kept if one is not None] or None


def is_refused(status: int) -> bool:
    """Whether the sandbox ended because of the medium; False when it made renditions. Raises as ``render``."""
    if status < 0 and status not in _REFUSALS:
        raise ended_by(status)
    if status == EITHER:
        raise Undecided(f"the sandbox ended with {status}")
    if status and status not in _REFUSALS:
        raise OSError(f"the sandbox ended with {status}")
    return status != 0


def _kept(objects: MediaObjects, media_id: str, made: _Made, path: Path) -> Rendition | None:
    """Named by its content, so that a rendering that is repeated never meets other bytes under its name."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for data in chunks(file):
            digest.update(data)
    sha256, size = digest.hexdigest(), path.stat().st_size
    name = f"{made.name}-{sha256[:16]}{path.suffix}"
    if not (0 < made.width <= _SIDE_MAX and 0 < made.height <= _SIDE_MAX):
        return None
    try:
        is_kept = objects.keep_rendition(media_id, name, path, size, sha256)
    except ValueError:  # no part of a key, and no name that a decoder of ours gives
        return None
    return Rendition(name, made.width, made.height, made.mime, size, sha256) if is_kept else None

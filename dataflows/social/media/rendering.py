"""Renditions of a source, made by a sandboxed process: its answer is believed only as far as its files show it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from schemas.social import limits
from sinks.objects.folder_store import chunks
from sinks.objects.media_objects import MediaObjects

_SIDE_MAX: Final = 10_000


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


def render(objects: MediaObjects, media_id: str, source: Path, mime: str, folder: Path) -> list[Rendition] | None:
    """The renditions, kept; None when the source is not decodable as ``mime``, or past a bound.

    Raises OSError when the machine, and not the medium, is what fails.
    """
    command = [sys.executable, "-m", "dataflows.social.media.sandbox", str(source), str(folder), mime]
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(  # noqa: S603 - ourselves
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limits.MEDIA_RENDERING_WAIT_S if mime.startswith("image/") else limits.MEDIA_VIDEO_WAIT_S,
            check=False,
        )
        made = _made.decode(done.stdout) if done.returncode == 0 else []
    except (subprocess.TimeoutExpired, msgspec.DecodeError):
        return None
    kept = [_kept(objects, media_id, one, folder / Path(one.file).name) for one in made]
    return [one for one in kept if one is not None] or None


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
    if not objects.keep_rendition(media_id, name, path, size, sha256):
        return None
    return Rendition(name, made.width, made.height, made.mime, size, sha256)

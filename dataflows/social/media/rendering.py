"""Renditions of a source, made by a sandboxed process: its answer is believed only as far as its files show it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from dataflows.social.media.sandbox import EITHER, UNDECODABLE
from schemas.social import limits
from sinks.objects.folder_store import chunks
from sinks.objects.media_objects import MediaObjects

_SIDE_MAX: Final = 10_000
_REFUSALS: Final = frozenset({UNDECODABLE, -signal.SIGXCPU, -signal.SIGXFSZ})


class Undecided(OSError):
    """Hostile bytes may be the reason, or the machine: memory that ran out, a crash, no end in time."""


class Unwanted(OSError):
    """The medium has ended meanwhile: nobody needs to know any more."""


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
    objects: MediaObjects,
    media_id: str,
    source: Path,
    mime: str,
    folder: Path,
    is_wanted: Callable[[], bool] = _always,
) -> list[Rendition] | None:
    """The renditions, kept; None when the source is not decodable as ``mime``, or past a bound.

    Raises Undecided when the medium or the machine may be what fails, OSError when it is the machine, Unwanted when
    ``is_wanted`` has said no.
    """
    command = [sys.executable, "-m", "dataflows.social.media.sandbox", str(source), str(folder), mime]
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    wait_s = limits.MEDIA_RENDERING_WAIT_S if mime.startswith("image/") else limits.MEDIA_VIDEO_WAIT_S
    status, said = _run(command, environment, wait_s, is_wanted)
    if is_refused(status):
        return None
    try:
        made = _made.decode(said)
    except msgspec.DecodeError:
        return None
    kept = [_kept(objects, media_id, one, folder / Path(one.file).name) for one in made]
    return [one for one in kept if one is not None] or None


def _run(
    command: list[str], environment: dict[str, str], wait_s: float, is_wanted: Callable[[], bool]
) -> tuple[int, bytes]:
    """How it ended, and what it said; it does not outlive this. Raises Undecided, Unwanted."""
    ends = time.monotonic() + wait_s
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            while is_wanted():
                left_s = max(0.0, ends - time.monotonic())
                try:
                    said, _ = process.communicate(timeout=min(left_s, limits.MEDIA_WANTED_LOOK_S))
                except subprocess.TimeoutExpired:
                    if not left_s:
                        raise Undecided("no end in time") from None
                else:
                    return process.returncode, said
        finally:
            process.kill()
    raise Unwanted("the medium has ended")


def is_refused(status: int) -> bool:
    """Whether the sandbox ended because of the medium; False when it made renditions. Raises as ``render``."""
    if status == EITHER or (status < 0 and status not in _REFUSALS):
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
    if not objects.keep_rendition(media_id, name, path, size, sha256):
        return None
    return Rendition(name, made.width, made.height, made.mime, size, sha256)

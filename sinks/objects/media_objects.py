"""The bytes of media on a file system: parts as they come, sources, renditions. What is there was checked before.

A file gets its name when its bytes are whole, verified and on disk, and never changes afterwards: a reader finds all of
it or nothing, whoever dies. Two writers of one name bring the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, Self

from schemas import limits

Assembled = Literal["ok", "part_missing", "checksum_mismatch"]
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_PRIVATE: Final = 0o700


class Draft:
    """One file on its way: bounded, hashed while it is written, gone unless it is kept."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self._file: BinaryIO = path.open("xb")
        self._digest = hashlib.sha256()
        self.written = 0

    def write(self, data: bytes) -> bool:
        """False when it is more than was declared: nothing of it will be kept."""
        self.written += len(data)
        if self.written > self._size:
            return False
        self._digest.update(data)
        self._file.write(data)
        return True

    def keep(self, where: Path, sha256: str) -> bool:
        """Gives the file its name once it is on disk; False when the bytes are not the declared ones."""
        if self.written != self._size or self._digest.hexdigest() != sha256:
            return False
        self._file.flush()
        os.fsync(self._file.fileno())
        where.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        try:
            os.link(self._path, where)  # never over another: a name is written once
        except FileExistsError:
            return True
        _on_disk(where.parent)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


class MediaObjects:
    """The three kinds of objects in one folder. Raises ValueError for a name that can be no part of a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "drafts").mkdir(mode=_PRIVATE, parents=True, exist_ok=True)

    def draft(self, size: int) -> Draft:
        """A file that has no name yet."""
        return Draft(self._folder / "drafts" / uuid.uuid4().hex, size)

    def part(self, media_id: str, number: int) -> Path:
        """Where a part lies."""
        return self._folder / "parts" / _name(media_id) / str(number)

    def source(self, media_id: str, sha256: str) -> Path:
        """Where the whole lies, by its content: what is scanned and rendered. It is never served."""
        return self._folder / "sources" / _name(sha256)[:2] / _name(sha256) / _name(media_id)

    def rendition(self, media_id: str, name: str) -> Path:
        """Where a rendition lies."""
        return self._folder / "renditions" / _name(media_id) / _name(name)

    def assemble(self, media_id: str, parts: int, size: int, sha256: str) -> Assembled:
        """Makes the source of all parts, in order. Done again it finds what is there."""
        where = self.source(media_id, sha256)
        if where.exists():
            return "ok"
        with self.draft(size) as draft:
            for number in range(1, parts + 1):
                path = self.part(media_id, number)
                if not path.exists():
                    return "part_missing"
                with path.open("rb") as file:
                    for data in chunks(file):
                        if not draft.write(data):
                            return "checksum_mismatch"
            return "ok" if draft.keep(where, sha256) else "checksum_mismatch"

    def keep_rendition(self, media_id: str, name: str, made: Path, size: int, sha256: str) -> bool:
        """Takes a rendition in; False when the bytes are not what was said of them."""
        with self.draft(size) as draft, made.open("rb") as file:
            is_short = all(draft.write(data) for data in chunks(file))
            return is_short and draft.keep(self.rendition(media_id, name), sha256)

    def forget_parts(self, media_id: str) -> None:
        """Nothing of an upload's parts is there afterwards."""
        shutil.rmtree(self._folder / "parts" / _name(media_id), ignore_errors=True)

    def forget(self, media_id: str, sha256: str) -> None:
        """Nothing of the medium is there afterwards; equal bytes of another one stay."""
        self.forget_parts(media_id)
        shutil.rmtree(self._folder / "renditions" / _name(media_id), ignore_errors=True)
        source = self.source(media_id, sha256)
        source.unlink(missing_ok=True)
        try:
            source.parent.rmdir()
        except OSError:  # others have the same bytes, or it is gone
            return

    def forget_old_drafts(self) -> None:
        """What writers left that died; none writes for so long."""
        before = time.time() - limits.MEDIA_DRAFT_S
        for path in (self._folder / "drafts").iterdir():
            with contextlib.suppress(FileNotFoundError):  # its writer ended just now
                if path.stat().st_mtime < before:
                    path.unlink()

    def holds(self, media_id: str, sha256: str) -> bool:
        """Whether anything of the medium is there."""
        places = (self.part(media_id, 1).parent, self.rendition(media_id, "x").parent, self.source(media_id, sha256))
        return any(place.exists() for place in places)


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file, in bounded pieces."""
    while data := file.read(limits.MEDIA_CHUNK_BYTES):
        yield data


def _name(text: str) -> str:
    if not _NAME.fullmatch(text) or text.startswith("."):
        raise ValueError("no part of a path")
    return text


def _on_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

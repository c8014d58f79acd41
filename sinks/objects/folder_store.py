"""Objects as files of one folder, which all processes share."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from schemas.social import limits

_PRIVATE: Final = 0o700


class FolderStore:
    """A file gets its name by a link when it is on disk, and never changes afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, key: str, draft: Path) -> None:
        """As the seam says; the draft lies on the same file system."""
        where = self._folder / key
        where.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        try:
            os.link(draft, where)  # never over another: a name is written once
        except FileExistsError:
            return
        _on_disk(where.parent)

    def exists(self, key: str) -> bool:
        """As the seam says."""
        return (self._folder / key).exists()

    def chunks(self, key: str, part: tuple[int, int] | None = None) -> Iterator[bytes]:
        """As the seam says."""
        with (self._folder / key).open("rb") as file:
            if part is None:
                yield from chunks(file)
                return
            start, stop = part
            file.seek(start)
            while start < stop and (data := file.read(min(limits.MEDIA_CHUNK_BYTES, stop - start))):
                start += len(data)
                yield data

    def file(self, key: str) -> Path | None:
        """Always the file itself."""
        path = self._folder / key
        return path if path.exists() else None

    def delete(self, key: str) -> None:
        """And its folder, where nothing else is in it."""
        path = self._folder / key
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are in it, or it is gone
            path.parent.rmdir()

    def delete_all(self, keys: Sequence[str]) -> None:
        """And their folders, where nothing else is in them."""
        for key in keys:
            self.delete(key)

    def delete_below(self, folder: str) -> None:
        """As the seam says."""
        shutil.rmtree(self._folder / folder, onerror=_unless_gone)

    def has_below(self, folder: str) -> bool:
        """As the seam says."""
        return (self._folder / folder).exists()


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file, in bounded pieces."""
    while data := file.read(limits.MEDIA_CHUNK_BYTES):
        yield data


def _unless_gone(_: object, __: str, what: tuple[type[BaseException], BaseException, object]) -> None:
    """Others may take the same away; whatever else goes wrong, it is not gone."""
    if not isinstance(what[1], FileNotFoundError):
        raise what[1]


def _on_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

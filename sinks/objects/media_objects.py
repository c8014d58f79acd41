"""The bytes of media under names: parts as they come, sources, renditions. What is there was checked before.

A name is given when the bytes are whole and verified, and never changes what it stands for: a reader finds all of it or
nothing, whoever dies. Two writers of one name bring the same bytes. Where they lie is an ``ObjectStore``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Self

from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.bucket_store import BucketStore
from sinks.objects.folder_store import FolderStore, chunks
from sinks.objects.held_files import new_file, remove_left
from sinks.objects.object_store import ObjectStore

Assembled = Literal["ok", "part_missing", "checksum_mismatch"]
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_PRIVATE: Final = 0o700


class Draft:
    """One file on its way: bounded, hashed while it is written, gone unless it is kept."""

    def __init__(self, store: ObjectStore, folder: Path, size: int, others: set[Draft]) -> None:
        self._store = store
        self._path, self._file = new_file(folder)
        self._size = size
        self._others = others
        self._digest = hashlib.sha256()
        self.written = 0
        others.add(self)

    @property
    def to_come(self) -> int:
        """How much room it takes from now on."""
        return max(0, self._size - self.written)

    def write(self, data: bytes) -> bool:
        """False when it is more than was declared: nothing of it will be kept."""
        self.written += len(data)
        if self.written > self._size:
            return False
        self._digest.update(data)
        self._file.write(data)
        return True

    def keep(self, key: str, sha256: str) -> bool:
        """Gives the bytes their name once they are on disk; False when they are not the declared ones."""
        if self.written != self._size or self._digest.hexdigest() != sha256:
            return False
        self._file.flush()
        os.fsync(self._file.fileno())
        self._store.keep(key, self._path)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._others.discard(self)
        try:
            self._file.close()  # writes what is left, which a full disk refuses once more
        finally:
            self._path.unlink(missing_ok=True)


class MediaObjects:
    """The three kinds of objects. Raises ValueError for a name that is no part of a key, OSError as the store does."""

    def __init__(self, store: ObjectStore, drafts: Path) -> None:
        self._store = store
        self._drafts = drafts
        self._under_way: set[Draft] = set()
        drafts.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)

    def draft(self, size: int) -> Draft:
        """A file of this machine that has no name yet. Raises OSError while the disk has no room for it, too.

        Whoever uploads must not be the one who stops the servers whose files are on the same disk.
        """
        to_come = size + sum(draft.to_come for draft in tuple(self._under_way))
        if shutil.disk_usage(self._drafts).free < to_come + limits.MEDIA_DISK_KEPT_BYTES:
            raise OSError(errno.ENOSPC, "too little room is left for media")
        return Draft(self._store, self._drafts, size, self._under_way)

    def assemble(self, media_id: str, parts: int, size: int, sha256: str) -> Assembled:
        """Makes the source of all parts, in order. Done again it finds what is there."""
        where = source_key(media_id, sha256)
        if self._store.exists(where):
            return "ok"
        with self.draft(size) as draft:
            for number in range(1, parts + 1):
                try:
                    is_short = all(draft.write(data) for data in self._store.chunks(part_key(media_id, number)))
                except FileNotFoundError:
                    return "part_missing"
                if not is_short:
                    return "checksum_mismatch"
            return "ok" if draft.keep(where, sha256) else "checksum_mismatch"

    def source_file(self, media_id: str, sha256: str, folder: Path) -> Path:
        """The source as a file of this machine: itself, or a copy in the folder that was compared with its name."""
        key = source_key(media_id, sha256)
        if (found := self._store.file(key)) is not None:
            return found
        digest, path = hashlib.sha256(), folder / "source"
        with path.open("xb") as file:
            for data in self._store.chunks(key):
                digest.update(data)
                file.write(data)
        if digest.hexdigest() != sha256:
            raise OSError("a source is not what its name says")
        return path

    def keep_rendition(self, media_id: str, name: str, made: Path, size: int, sha256: str) -> bool:
        """Takes a rendition in; False when the bytes are not what was said of them."""
        with self.draft(size) as draft, made.open("rb") as file:
            is_short = all(draft.write(data) for data in chunks(file))
            return is_short and draft.keep(rendition_key(media_id, name), sha256)

    def rendition_file(self, media_id: str, name: str) -> Path | None:
        """Where a rendition is a file of this machine."""
        return self._store.file(rendition_key(media_id, name))

    def rendition_chunks(self, media_id: str, name: str, part: tuple[int, int] | None = None) -> Iterator[bytes]:
        """The bytes of a rendition, or a part of them, in bounded pieces. Raises FileNotFoundError."""
        return self._store.chunks(rendition_key(media_id, name), part)

    def forget_parts(self, media_id: str) -> None:
        """Nothing of an upload's parts is there afterwards."""
        self._store.delete_below(f"parts/{_name(media_id)}")

    def forget(self, media_id: str, sha256: str) -> None:
        """Nothing of the medium is there afterwards; equal bytes of another one stay."""
        self.forget_parts(media_id)
        self._store.delete_below(f"renditions/{_name(media_id)}")
        self._store.delete(source_key(media_id, sha256))

    def forget_named(self, media: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        """The sources and these renditions of media, by id, SHA-256 and names, are not there afterwards.

        Many at once: nothing is looked for. Parts stay, and what died before its name was known.
        """
        keys: list[str] = []
        for media_id, sha256, names in media:
            keys += [source_key(media_id, sha256), *(rendition_key(media_id, name) for name in names)]
        self._store.delete_all(keys)

    def forget_left_drafts(self) -> None:
        """What writers left that died, also while others write; where files have no locks, an hour later."""
        remove_left(self._drafts, limits.MEDIA_DRAFT_S)

    def holds(self, media_id: str, sha256: str) -> bool:
        """Whether anything of the medium is there."""
        is_there = (self._store.has_below(f"{kind}/{_name(media_id)}") for kind in ("parts", "renditions"))
        return any(is_there) or self._store.exists(source_key(media_id, sha256))


def media_objects(origin: MediaOrigin) -> MediaObjects:
    """Those of an installation: in its bucket, or in its folder, where drafts are in any case."""
    store = FolderStore(origin.folder) if origin.bucket is None else BucketStore(origin.bucket)
    return MediaObjects(store, origin.folder / "drafts")


def part_key(media_id: str, number: int) -> str:
    """Where a part lies."""
    return f"parts/{_name(media_id)}/{number:d}"


def source_key(media_id: str, sha256: str) -> str:
    """Where the whole lies, by its content: what is scanned and rendered. It is never served."""
    return f"sources/{_name(sha256)[:2]}/{_name(sha256)}/{_name(media_id)}"


def rendition_key(media_id: str, name: str) -> str:
    """Where a rendition lies."""
    return f"renditions/{_name(media_id)}/{_name(name)}"


def _name(text: str) -> str:
    if not _NAME.fullmatch(text) or text.startswith("."):
        raise ValueError("no part of a key")
    return text

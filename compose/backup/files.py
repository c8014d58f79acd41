"""Files of a backup: copied while they change, then what changed once more; and a manifest with their digests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compose.stack.errors import StackError
from compose.stack.home import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
#: changed through memory, which leaves the time of the last change as it was
_MAPPED: Final = (".index", ".timeindex", ".ring", ".book", "-shm")
#: what changed so shortly before it was copied may change again in the same tick of the file system's clock
_SETTLED_NS: Final = 2_000_000_000


class TreeCopy:
    """A folder and its copy. ``passes`` may be many: each copies what is new or changed, and drops what is gone."""

    def __init__(self, source: Path, target: Path, leaves_out: Callable[[str], bool] = lambda _: False) -> None:
        self._source, self._target = source, target
        self._leaves_out = leaves_out
        self._known: dict[str, tuple[int, int, int]] = {}

    def copy(self, except_below: tuple[str, ...] = ()) -> None:
        """One pass. A file that goes while it is copied is passed over: the next pass drops it.

        What lies below one of ``except_below`` in the copy is not this one's, and stays. Raises FileNotFoundError when
        something of the copy is gone.
        """
        there = set()
        for path, found in entries(self._source, lambda path: self._leaves_out(str(path.relative_to(self._source)))):
            name = str(path.relative_to(self._source))
            try:
                self._copy_one(path, found, name)
            except FileNotFoundError as error:
                if str(error.filename) != str(path):
                    raise  # of the copy, which somebody takes away
                continue
            there.add(name)
        for path, found in sorted(entries(self._target), reverse=True):
            name = str(path.relative_to(self._target))
            is_others = any(
                one == name or one.startswith(f"{name}/") or name.startswith(f"{one}/") for one in except_below
            )
            if name not in there and not is_others:
                path.rmdir() if stat.S_ISDIR(found.st_mode) else path.unlink()

    def _copy_one(self, path: Path, found: os.stat_result, name: str) -> None:
        target = self._target / name
        if stat.S_ISDIR(found.st_mode):
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif stat.S_ISLNK(found.st_mode):
            target.unlink(missing_ok=True)
            target.symlink_to(_as_relative(path))
        elif stat.S_ISREG(found.st_mode):
            seen = (found.st_size, found.st_mtime_ns, found.st_ino)
            if self._known.get(name) != seen or name.endswith(_MAPPED):
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                is_settled = time.time_ns() - found.st_mtime_ns > _SETTLED_NS
                self._known |= {name: seen if is_settled else (-1, -1, -1)}
        if not stat.S_ISLNK(found.st_mode):
            target.chmod(stat.S_IMODE(found.st_mode) | (0o700 if stat.S_ISDIR(found.st_mode) else 0))


def entries(root: Path, is_left_out: Callable[[Path], bool] = lambda _: False) -> Iterator[tuple[Path, os.stat_result]]:
    """All that lies in a folder, folders before what is in them; links are not followed."""
    try:
        listed = sorted(os.scandir(root), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in listed:
        if is_left_out(Path(entry.path)):
            continue
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield Path(entry.path), found
        if stat.S_ISDIR(found.st_mode):
            yield from entries(Path(entry.path), is_left_out)


def _as_relative(link: Path) -> str:
    """Where a link leads, so that it leads there in a copy, too: an engine may name its files by their whole path."""
    leads = link.readlink()
    return os.path.relpath(leads, link.parent) if leads.is_absolute() else str(leads)


def write_manifest(folder: Path, told: dict[str, Any]) -> None:
    """Every file and link of the folder, and what else is to be known: the last file of a backup."""
    files, links = {}, {}
    for path, found in entries(folder):
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(found.st_mode):
            links[name] = str(path.readlink())
        elif stat.S_ISREG(found.st_mode):
            files[name] = {"bytes": found.st_size, "sha256": digest(path)}
    write_private(folder / MANIFEST, json.dumps({"format": FORMAT, **told, "files": files, "links": links}, indent=1))


def read_manifest(folder: Path) -> dict[str, Any]:
    """What ``write_manifest`` wrote. StackError when there is none that this release can read."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        raise StackError(f"{folder} is no backup: it has no {MANIFEST}") from None
    except ValueError as error:
        raise StackError(f"{folder / MANIFEST} is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise StackError(f"{folder} was made by another version of Millrace: restore it with that")
    return found


def verify(folder: Path, manifest: dict[str, Any]) -> None:
    """Every file and link is as the manifest says, and there is no other. Raises StackError, which names the first."""
    left, links = dict(manifest["files"]), dict(manifest["links"])
    for path, found in entries(folder):
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(found.st_mode):
            is_good = links.pop(name, None) == str(path.readlink())
        elif stat.S_ISREG(found.st_mode) and name != MANIFEST:
            told = left.pop(name, None)
            is_good = told == {"bytes": found.st_size, "sha256": digest(path)}
        else:
            is_good = True
        if not is_good:
            raise StackError(f"{path} is not as it was when the backup was made: nothing is restored from it")
    for name in (*left, *links):
        raise StackError(f"{folder / name} is missing: nothing is restored from this backup")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

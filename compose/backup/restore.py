"""``millrace restore``: a backup becomes a home, as a whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compose import limits
from compose.backup.draft import draft_of, need_room
from compose.backup.files import MANIFEST, TreeCopy, entries, read_manifest, verify
from compose.stack.errors import StackError
from compose.stack.unprivileged import unprivileged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compose.stack.home import Home


def restore(home: Home, source: Path, on_step: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Makes ``home``, which must be absent or empty, of the backup; what its manifest says but its files.

    Every file is compared with its digest before the home is there. A kill leaves a draft beside it, with
    which no stack starts in place of this home, and which the next restore removes. Raises StackError.
    """
    manifest = read_manifest(source)
    try:
        with draft_of(home.path.resolve(), home.restoring) as draft:
            need_room(draft, sum(file["bytes"] for file in manifest["files"].values()) + limits.HOME_FREE_BYTES_MIN)
            on_step("copying")
            TreeCopy(source, draft).copy()
            on_step("comparing")
            verify(draft, manifest)
            (draft / MANIFEST).unlink()
            _own(draft / "data" / "postgres")
    except OSError as error:
        raise StackError(f"the backup cannot be restored: {error}") from error
    return {name: value for name, value in manifest.items() if name not in ("files", "links")}


def _own(database: Path) -> None:
    identity = unprivileged(database)
    for path in (database, *(path for path, _ in entries(database))):
        identity.own(path)

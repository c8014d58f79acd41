"""``millrace restore``: a backup becomes a home, as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from compose import limits
from compose.backup.files import MANIFEST, TreeCopy, entries, read_manifest, verify
from compose.stack.errors import StackError
from compose.stack.unprivileged import unprivileged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compose.stack.home import Home


def restore(home: Home, source: Path, on_step: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Makes ``home``, which must be absent or empty, of the backup; what its manifest says but its files.

    Every file is compared with its digest before the home is there. A kill leaves a draft beside it, which the next
    one removes. Raises StackError.
    """
    manifest = read_manifest(source)
    path = home.path
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StackError(f"{path} is there and not empty: set MILLRACE_HOME to a new folder")
    draft = path.with_name(f".{path.name}.restoring")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(mode=0o700, parents=True)
        needed = sum(file["bytes"] for file in manifest["files"].values()) + limits.HOME_FREE_BYTES_MIN
        if shutil.disk_usage(draft).free < needed:
            raise StackError(f"{needed // 2**20} MiB are needed free under {path}")
        on_step("copying")
        TreeCopy(source, draft).copy()
        on_step("comparing")
        verify(draft, manifest)
        (draft / MANIFEST).unlink()
        _own(draft / "data" / "postgres")
        os.sync()
        if path.exists():
            path.rmdir()
        draft.rename(path)
    except OSError as error:
        raise StackError(f"the backup cannot be restored: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {name: value for name, value in manifest.items() if name not in ("files", "links")}


def _own(database: Path) -> None:
    identity = unprivileged(database)
    for path in (database, *(path for path, _ in entries(database))):
        identity.own(path)

"""How Postgres is run where the caller is root, which it refuses: in a user namespace, or else as ``nobody``."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAMESPACE: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_REACHABLE: Final = 0o711


@dataclass(frozen=True, slots=True)
class Identity:
    """A way to run a command, and the owner that its files need."""

    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command as this identity runs it."""
        return [*self.prefix, *command]

    def own(self, path: Path) -> None:
        """Gives the file to the user that the command runs as."""
        if self.owner is not None:
            os.chown(path, *self.owner)


def unprivileged(folder: Path) -> Identity:
    """The identity that Postgres runs with on this data folder; raises ``StackError`` when there is none."""
    if os.geteuid() != 0:
        return Identity()
    if _works(_NAMESPACE):
        return Identity(prefix=_NAMESPACE)
    return _nobody(folder)


def _nobody(folder: Path) -> Identity:
    user = pwd.getpwnam("nobody")
    prefix = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    home = folder.parent.parent
    for passage in (home, folder.parent):
        passage.chmod(_REACHABLE)  # passwords and logs keep their own modes
    if not _works((*prefix, "test", "-x", str(folder.parent))):
        raise StackError(
            f"Postgres refuses root, user namespaces are off and 'nobody' cannot reach {home}: run as another user, "
            "set MILLRACE_HOME to a folder that everybody can enter, or set MILLRACE_POSTGRES_DSN to a server"
        )
    return Identity(prefix=prefix, owner=(user.pw_uid, user.pw_gid))


@cache
def _works(prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    command = [*prefix, "true"] if "test" not in prefix else list(prefix)
    done = subprocess.run(command, capture_output=True, check=False, timeout=limits.HEALTH_CHECK_TIMEOUT_S)
    return done.returncode == 0

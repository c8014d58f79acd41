"""Secrets of a file, newest first: the first one signs, each of them is believed until it retires.

A line has a secret in hex and, of one that signs no more, a blank and when it retires (seconds since the epoch). Who
replaces the file need not restart anybody: it is looked at again every second.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sinks import limits

if TYPE_CHECKING:
    from pathlib import Path

Secrets = Callable[[], tuple[bytes, ...]]
_NEVER: Final = float("inf")


class KeptSecrets:
    """One file of them, as one process knows it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: tuple[tuple[bytes, float], ...] = ()
        self._seen = (0, 0)
        self._look_due = float("-inf")

    def __call__(self) -> tuple[bytes, ...]:
        """Those that are believed now; where the file cannot be read, those of before. Raises OSError at first."""
        if time.monotonic() >= self._look_due:
            self._look_due = time.monotonic() + limits.SECRETS_LOOK_S
            self._look()
        now = time.time()
        return tuple(secret for secret, retires_at in self._found if retires_at > now)

    def _look(self) -> None:
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_ino) != self._seen:
                self._found = read(self._path.read_text())
                self._seen = (status.st_mtime_ns, status.st_ino)
        except OSError:
            if not self._found:
                raise


def read(text: str) -> tuple[tuple[bytes, float], ...]:
    """Secrets with the time of their retirement."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return tuple((bytes.fromhex(words[0]), float(words[1]) if len(words) > 1 else _NEVER) for words in lines)


def written(found: tuple[tuple[bytes, float], ...]) -> str:
    """The text of a file."""
    lines = (secret.hex() + ("" if retires_at == _NEVER else f" {int(retires_at)}") for secret, retires_at in found)
    return "".join(f"{line}\n" for line in lines)


def secrets_of(secret: bytes | Secrets) -> Secrets:
    """One secret, or several of them."""
    return (lambda: (secret,)) if isinstance(secret, bytes) else secret


def derived(secret: bytes | Secrets, purpose: bytes) -> Secrets:
    """Others than these, for another purpose."""
    of = secrets_of(secret)
    return lambda: tuple(hmac.digest(one, purpose, "sha256") for one in of())

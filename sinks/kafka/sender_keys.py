"""The keys of producers, a private file each: a process reads those of its own roles, an owner those of its senders.

A folder is the registry: who has a file may send, whose file is gone may not. Files are whole or absent, and never
change: a key that is replaced gets a new file.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from schemas.senders import OUTSIDE, ROLES, Sender
from sinks import limits, private_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: of a producer outside: with a prefix, so that no name is ever a role
NAME: Final = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{limits.PRODUCER_NAME_LENGTH_MAX - 1}}}")
_KEY_BYTES: Final = 32


class KnownSender(Struct, frozen=True):
    """A sender as owners know it; ``scopes`` are those of a producer outside, None for a role of ours."""

    sender: Sender
    scopes: tuple[str, ...] | None = None


class SenderKeys:
    """The folder of one home. OSError and ValueError say that a file cannot be read."""

    def __init__(self, folder: Path, believed: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self._believed = believed

    def of(self, believed: frozenset[str]) -> SenderKeys:
        """The same, for who believes these roles (``schemas.services.senders_to``) and producers outside."""
        return SenderKeys(self._folder, believed)

    def ensure(self, *further: str) -> None:
        """Every role has a key, also those further ones; at once by several processes, all see the same."""
        for role in (*ROLES, *further):
            self._write(role, {})

    def senders(self, names: Iterable[str]) -> tuple[Sender, ...]:
        """Those roles' own keys; read nothing else."""
        return tuple(_read(self._file(name)).sender for name in names)

    def known(self) -> dict[bytes, KnownSender]:
        """Those who are believed, by name as a header has it. For owners alone.

        Rule: a key that verifies also signs, so no other is opened: an owner cannot speak as who never speaks to it.
        """
        paths = (self._file(name) for name in self._believed)
        paths_of_roles = [path for path in paths if path.exists()]  # a role has its key when its process starts
        found = (_read(path) for path in (*paths_of_roles, *self._folder.glob(f"{OUTSIDE}*.json")))
        return {known.sender.name.encode(): known for known in found}

    def changed_at(self) -> int:
        """Differs after a key has come or gone."""
        return self._folder.stat().st_mtime_ns

    def add(self, name: str, scopes: tuple[str, ...], kafka: Mapping[str, str] | None = None) -> Path:
        """A producer outside with a new key: the file to hand to it; ``kafka`` are its credentials at the broker.

        Raises ValueError for a name that will not do.
        """
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no producer's name: 1 to {limits.PRODUCER_NAME_LENGTH_MAX} of a-z 0-9 _ -")
        self.ensure()
        if not self._write(OUTSIDE + name, {"scopes": list(scopes), **({"kafka": kafka} if kafka else {})}):
            raise ValueError(f"there is a producer {name!r}: remove it first")
        return self._file(OUTSIDE + name)

    def remove(self, name: str) -> None:
        """Owners take nothing of this producer any more, within a second. Raises ValueError when there is none."""
        try:
            self._file(OUTSIDE + name).unlink()
        except FileNotFoundError:
            raise ValueError(f"there is no producer {name!r}") from None

    def outside(self) -> dict[str, tuple[str, ...]]:
        """Producers outside by name, with the scopes that they may send in."""
        known = (_read(path) for path in sorted(self._folder.glob(f"{OUTSIDE}*.json")))
        return {one.sender.name.removeprefix(OUTSIDE): one.scopes or () for one in known}

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _write(self, name: str, more: dict[str, object]) -> bool:
        """The file, on the disk, unless there is one; False then."""
        content = {"sender": name, "key": secrets.token_hex(_KEY_BYTES), **more}
        return private_file.write_once(self._file(name), json.dumps(content))


def _read(path: Path) -> KnownSender:
    found = json.loads(path.read_text())
    if found["sender"] != path.name.removesuffix(".json"):
        raise ValueError(f"{path.name} holds another sender's key")
    scopes = found.get("scopes")
    return KnownSender(Sender(found["sender"], bytes.fromhex(found["key"])), None if scopes is None else tuple(scopes))

"""Root keys wrap the keys of tenants. They change while everything runs: who holds them looks whether the file did.

``prepare`` makes a key that wraps nothing yet, for machines elsewhere that have a copy of the file; from ``rotate`` on
it wraps new keys, and the mover wraps all others anew. One that wraps none any more may be removed.
"""

from __future__ import annotations

import base64
import json
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

from schemas import errors
from schemas.crypto import sealing
from schemas.tenancy import limits
from sinks import private_file
from sinks.tenancy import seals, secrets_file
from sinks.tenancy.shredded import Shredded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sinks.tenancy.secrets_file import TenancySecrets

_ID_BYTES: Final = 4
_log: Final = structlog.get_logger(__name__)


class RootKeys:
    """Wraps and unwraps keys of tenants; without secrets there is none that it could. One thread at a time."""

    def __init__(self, held: TenancySecrets | None) -> None:
        self._file = None if held is None else held.file
        self._keys: Mapping[str, bytes] = {} if held is None else held.root_keys
        self._newest = "" if held is None else held.root_key_id
        self._seen: tuple[int, ...] = ()
        self._shredded = None if self._file is None else Shredded(self._file.parent)

    @property
    def newest(self) -> str:
        """The id of the key that wraps from now on."""
        self._look()
        return self._newest

    def new_wrapped(self, tenant_id: str, key_version: int) -> tuple[str, bytes]:
        """A new key of a tenant: the id of the newest root key, and the key wrapped by it."""
        return self._wrapped(tenant_id, key_version, secrets.token_bytes(sealing.KEY_BYTES))

    def wrapped_anew(self, tenant_id: str, key_version: int, root_key_id: str, wrapped: bytes) -> tuple[str, bytes]:
        """The same key under the newest root key, with its id. Raises as ``unwrap``."""
        return self._wrapped(tenant_id, key_version, self.unwrap(tenant_id, key_version, root_key_id, wrapped))

    def unwrap(self, tenant_id: str, key_version: int, root_key_id: str, wrapped: bytes) -> bytes:
        """The key. Raises SealBroken, KeyShredded, and Unavailable where the root key is not at hand."""
        if self._shredded is not None and tenant_id in self._shredded.all():
            raise errors.KeyShredded
        self._look()
        key = self._keys.get(root_key_id)
        if key is None:
            raise errors.Unavailable("The root key of this tenant's key is not at hand.")
        return sealing.decrypt(key, wrapped, seals.bound("key", tenant_id, key_version))

    def _wrapped(self, tenant_id: str, key_version: int, key: bytes) -> tuple[str, bytes]:
        newest = self.newest
        return newest, sealing.encrypt(self._keys[newest], key, seals.bound("key", tenant_id, key_version))

    def _look(self) -> None:
        """Takes over what the file became. One that cannot be read, or is another home's, changes nothing."""
        if self._file is None:
            return
        try:
            found = self._file.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen == self._seen:
                return
            held = secrets_file.read(self._file.parent)
        except (OSError, errors.Unavailable):
            return
        self._seen = seen
        if any(held.root_keys[name] != self._keys[name] for name in held.root_keys.keys() & self._keys.keys()):
            _log.error("foreign_root_keys", file=self._file.name, hint="put this home's file back")
            return
        self._keys, self._newest = held.root_keys, held.root_key_id


def prepare(folder: Path) -> str:
    """A key that wraps nothing yet. Gives its id. Raises StateConflict, and Unavailable without the file."""
    with _changed(folder) as document:
        return _prepare(document)


def rotate(folder: Path) -> str:
    """The prepared key, or a new one, wraps new keys of tenants from now on. Gives its id. Raises as ``prepare``."""
    with _changed(folder) as document:
        prepared = _behind(document["root_keys"], document["root_key_id"])
        document["root_key_id"] = prepared or _prepare(document)
        return str(document["root_key_id"])


def remove(folder: Path, id_: str) -> None:
    """Nothing that this key wraps is opened any more. Raises NotFound, or StateConflict for the newest."""
    with _changed(folder) as document:
        if id_ not in document["root_keys"]:
            raise errors.NotFound("There is no such root key.")
        if id_ == document["root_key_id"]:
            raise errors.StateConflict("This key wraps new keys: rotate first.")
        del document["root_keys"][id_]


def states(folder: Path) -> dict[str, str]:
    """What each key does, in the order in which they were made. Raises Unavailable without the file."""
    held = secrets_file.read(folder)
    does = dict.fromkeys(held.root_keys, "unwraps")
    if (waits := _behind(held.root_keys, held.root_key_id)) is not None:
        does[waits] = "prepared"
    return does | {held.root_key_id: "wraps"}


def _behind(root_keys: Mapping[str, object], newest: str) -> str | None:
    """The prepared key, if there is one: keys stand in the order in which they were made."""
    last = list(root_keys)[-1]
    return None if last == newest else last


def _prepare(document: dict[str, Any]) -> str:
    if _behind(document["root_keys"], document["root_key_id"]):
        raise errors.StateConflict("A root key is prepared already: rotate, or remove it.")
    if len(document["root_keys"]) >= limits.ROOT_KEYS_MAX:
        raise errors.StateConflict("There are too many root keys: remove old ones first.")
    name = f"rk_{secrets.token_hex(_ID_BYTES)}"
    document["root_keys"][name] = base64.b64encode(secrets.token_bytes(sealing.KEY_BYTES)).decode()
    return name


@contextmanager
def _changed(folder: Path) -> Iterator[dict[str, Any]]:
    """The file as it is, and what was made of it afterwards."""
    secrets_file.read(folder)  # says what is wrong with it
    path = folder / secrets_file.NAME
    with private_file.alone(path.with_suffix(".lock")):
        document = json.loads(path.read_text())
        yield document
        private_file.replace(path, json.dumps(document))

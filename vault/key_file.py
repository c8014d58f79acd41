"""The vault's keys in a private file: key-encryption keys by id, and the key of its MACs.

Ours lies in the home, is made once and is rewritten by a rotation. One that a key management system provides
(MILLRACE_VAULT_KEYS_FILE) is only read. A file that others can read is refused: it would be no secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from schemas import errors

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
_KEY_BYTES: Final = 32
_PRIVATE_FILE: Final = 0o600
_OTHERS: Final = 0o077
_KEY_ID: Final = re.compile(r"kek_[0-9]{4,9}")
_FIRST_KEY: Final = "kek_0001"


class VaultKeysUnusable(errors.PlatformError):
    """The vault's keys cannot be used."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one moment. Never log it: only the ids are in its representation."""

    wrapping_keys: Mapping[str, bytes] = field(repr=False)
    mac_key: bytes = field(repr=False)

    @property
    def newest(self) -> str:
        """The id that was given out last."""
        return max(self.wrapping_keys, key=_ordinal)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Where the keys lie. ``ours``: we make and rewrite the file; otherwise it is only read."""

    path: Path
    ours: bool

    def ensure(self) -> None:
        """Our file exists afterwards; made at once by several processes, all see the same keys."""
        if not self.ours or self.path.exists():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._draft(KeyRing({_FIRST_KEY: secrets.token_bytes(_KEY_BYTES)}, secrets.token_bytes(_KEY_BYTES)))
        try:
            os.link(draft, self.path)  # never over another process's file
        except FileExistsError:
            return  # that one was first, and its keys count
        finally:
            draft.unlink()

    def read(self) -> KeyRing:
        """The keys as the file has them now. Raises VaultKeysUnusable with what to do."""
        try:
            mode = self.path.stat().st_mode
            text = self.path.read_text()
        except OSError as error:
            raise VaultKeysUnusable(f"the vault's keys in {self.path} cannot be read: {error.strerror}") from error
        if stat.S_IMODE(mode) & _OTHERS:
            raise VaultKeysUnusable(f"{self.path} can be read by others: make it private (chmod 600) and new keys")
        try:
            return _ring_of(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            # The cause is left out on purpose: it may show a part of the file.
            raise VaultKeysUnusable(f"{self.path} is no key file of the vault: restore it from its backup") from None

    def add(self) -> str:
        """One more key in our file, durable; its id. Call it with the rotation's lock."""
        ring = self.read()
        key_id = f"kek_{_ordinal(ring.newest) + 1:04d}"
        self._replace(KeyRing({**ring.wrapping_keys, key_id: secrets.token_bytes(_KEY_BYTES)}, ring.mac_key))
        return key_id

    def forget(self, key_id: str) -> None:
        """Our file does not hold this key any more. Call it with the rotation's lock."""
        ring = self.read()
        if key_id in ring.wrapping_keys:
            left = {name: key for name, key in ring.wrapping_keys.items() if name != key_id}
            self._replace(KeyRing(left, ring.mac_key))

    def _replace(self, ring: KeyRing) -> None:
        self._draft(ring).replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _draft(self, ring: KeyRing) -> Path:
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        document = {
            "format": FORMAT,
            "wrapping_keys": {name: base64.b64encode(key).decode() for name, key in ring.wrapping_keys.items()},
            "mac_key": base64.b64encode(ring.mac_key).decode(),
        }
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps(document, indent=1))
            file.flush()
            os.fsync(file.fileno())
        return draft


def _ring_of(document: dict[str, Any]) -> KeyRing:
    if document["format"] != FORMAT:
        raise ValueError("another format")
    keys = {name: _key_of(text) for name, text in document["wrapping_keys"].items()}
    if not keys or not all(_KEY_ID.fullmatch(name) for name in keys):
        raise ValueError("no keys, or ids that are none")
    return KeyRing(keys, _key_of(document["mac_key"]))


def _key_of(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    if len(key) != _KEY_BYTES:
        raise ValueError("a key has 32 bytes")
    return key


def _ordinal(key_id: str) -> int:
    return int(key_id.partition("_")[2])

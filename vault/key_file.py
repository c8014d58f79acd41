"""The vault's keys in a private file: key-encryption keys by id, and the key of its MACs.

Ours lies in the home, is made once and is rewritten by a rotation. One that a key management system provides
(MILLRACE_VAULT_KEYS_FILE) is only read. A file that others can read is refused: it would be no secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from sinks import private_file

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
_KEY_BYTES: Final = 32
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
        ring = KeyRing({_FIRST_KEY: secrets.token_bytes(_KEY_BYTES)}, secrets.token_bytes(_KEY_BYTES))
        private_file.write_once(self.path, _text(ring))

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
        more = {**ring.wrapping_keys, key_id: secrets.token_bytes(_KEY_BYTES)}
        private_file.replace(self.path, _text(KeyRing(more, ring.mac_key)))
        return key_id

    def forget(self, key_id: str) -> None:
        """Our file does not hold this key any more. Call it with the rotation's lock."""
        ring = self.read()
        if key_id in ring.wrapping_keys:
            left = {name: key for name, key in ring.wrapping_keys.items() if name != key_id}
            private_file.replace(self.path, _text(KeyRing(left, ring.mac_key)))


def _text(ring: KeyRing) -> str:
    document = {
        "format": FORMAT,
        "wrapping_keys": {name: base64.b64encode(key).decode() for name, key in ring.wrapping_keys.items()},
        "mac_key": base64.b64encode(ring.mac_key).decode(),
    }
    return json.dumps(document, indent=1)


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

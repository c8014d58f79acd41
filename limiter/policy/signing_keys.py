"""Keys of policy snapshots: the newest signs, all listed ones verify. Rotation adds one and later takes one away.

A key is known to gateways before anything is signed with it. Where gateways have the public list from elsewhere,
``prepare`` makes the key and lists it, and ``rotate`` signs with it once the list has arrived everywhere.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from limiter.policy.snapshot import key_id
from schemas import errors
from schemas.limiter import limits
from sinks import private_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Two files, lists of base64: ``policy_signing.json`` (private, newest last) and ``policy_keys.json`` (public)."""

    folder: Path

    @property
    def private(self) -> Path:
        """Only the publisher reads it."""
        return self.folder / "policy_signing.json"

    @property
    def public(self) -> Path:
        """What gateways verify with."""
        return self.folder / "policy_keys.json"

    def ensure(self) -> None:
        """A key exists afterwards; run at once by several processes, all see the same."""
        private_file.write_once(self.private, json.dumps([_text(Ed25519PrivateKey.generate())]))
        if not self.public.exists():
            keys = [_private(text).public_key() for text in _read(self.private)]
            private_file.write_once(self.public, json.dumps([_text(key) for key in keys]))

    def signing_key(self) -> Ed25519PrivateKey:
        """The newest private key, as the file has it now."""
        file = self.private.stat()
        return _newest(self.private, file.st_ino, file.st_mtime_ns)

    def verifying_keys(self) -> dict[str, Ed25519PublicKey]:
        """Every public key by its id."""
        return {key_id(key): key for key in map(_public, _read(self.public))}

    def signer(self) -> str:
        """The id of the key that signs."""
        return key_id(self.signing_key().public_key())

    def prepare(self) -> str:
        """A key that verifies and does not sign yet; one at a time. Gives its id. Raises StateConflict."""
        with self._alone():
            return self._prepare()

    def rotate(self) -> str:
        """From the next publication on another key signs: the prepared one, or a new one. Gives its id."""
        with self._alone():
            if not self._next.exists():
                self._prepare()
            _replace(self.private, [*_read(self.private), *_read(self._next)])
            self._next.unlink()
            return self.signer()

    def remove(self, id_: str) -> None:
        """What that key has signed is refused from now on. Raises NotFound, or StateConflict for the one that signs."""
        with self._alone():
            if id_ not in self.verifying_keys():
                raise errors.NotFound("There is no such key.")
            if id_ == self.signer():
                raise errors.StateConflict("This key signs: rotate first.")
            for path in (self._next, self.private):
                if path.exists():
                    _replace(path, [text for text in _read(path) if key_id(_private(text).public_key()) != id_])
            if self._next.exists() and not _read(self._next):
                self._next.unlink()
            _replace(self.public, [text for text in _read(self.public) if key_id(_public(text)) != id_])

    @property
    def _next(self) -> Path:
        return self.folder / "policy_signing_next.json"

    def _prepare(self) -> str:
        known = _read(self.public)
        if self._next.exists():
            raise errors.StateConflict("A key is prepared already: rotate, or remove it.")
        if len(known) >= limits.LIMIT_SIGNING_KEYS_MAX:
            raise errors.StateConflict("There are too many keys: remove old ones first.")
        key = Ed25519PrivateKey.generate()
        _replace(self.public, [*known, _text(key.public_key())])
        _replace(self._next, [_text(key)])
        return key_id(key.public_key())

    def _alone(self) -> AbstractContextManager[None]:
        return private_file.alone(self.folder / "policy_keys.lock")


@lru_cache(maxsize=1)
def _newest(private: Path, inode: int, changed_ns: int) -> Ed25519PrivateKey:
    """Read once of each file: a publisher asks several times a second. A change puts another file in its place."""
    del inode, changed_ns  # which file it was
    return _private(_read(private)[-1])


def _private(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(text))


def _public(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text))


def _text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    raw = key.private_bytes_raw() if isinstance(key, Ed25519PrivateKey) else key.public_bytes_raw()
    return base64.b64encode(raw).decode()


def _replace(path: Path, keys: list[str]) -> None:
    private_file.replace(path, json.dumps(keys))  # a lost list of keys locks gateways out


def _read(path: Path) -> list[str]:
    found: list[str] = json.loads(path.read_text())
    return found

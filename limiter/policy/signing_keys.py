"""Keys of policy snapshots: the newest signs, all listed ones verify. Rotation adds one and later takes one away.

A key is known to gateways before anything is signed with it. Where gateways have the public list from elsewhere,
``prepare`` makes the key and lists it, and ``rotate`` signs with it once the list has arrived everywhere.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from limiter.policy.snapshot import key_id
from schemas import errors, limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIVATE_FILE: Final = 0o600


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
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.private.exists():
            _write_once(self.private, [base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()])
        if not self.public.exists():
            keys = [Ed25519PrivateKey.from_private_bytes(base64.b64decode(text)) for text in _read(self.private)]
            _write_once(self.public, [base64.b64encode(k.public_key().public_bytes_raw()).decode() for k in keys])

    def signing_key(self) -> Ed25519PrivateKey:
        """The newest private key."""
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(_read(self.private)[-1]))

    def verifying_keys(self) -> dict[str, Ed25519PublicKey]:
        """Every public key by its id."""
        keys = [Ed25519PublicKey.from_public_bytes(base64.b64decode(text)) for text in _read(self.public)]
        return {key_id(key): key for key in keys}

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
        _replace(self.public, [*known, base64.b64encode(key.public_key().public_bytes_raw()).decode()])
        _replace(self._next, [base64.b64encode(key.private_bytes_raw()).decode()])
        return key_id(key.public_key())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two who change keys at once would lose one of them."""
        descriptor = os.open(self.folder / "policy_keys.lock", os.O_WRONLY | os.O_CREAT, _PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _private(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(text))


def _public(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text))


def _replace(path: Path, keys: list[str]) -> None:
    """Readers see the old file or the new one."""
    scratch = _written(path, keys)
    scratch.replace(path)


def _read(path: Path) -> list[str]:
    found: list[str] = json.loads(path.read_text())
    return found


def _write_once(path: Path, keys: list[str]) -> None:
    """The file appears whole or not at all; whoever came first wins."""
    scratch = _written(path, keys)
    try:
        os.link(scratch, path)
    except FileExistsError:
        pass
    finally:
        scratch.unlink()


def _written(path: Path, keys: list[str]) -> Path:
    """A file beside it, on the disk before it takes its place: a lost list of keys locks gateways out."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        json.dump(keys, file)
        file.flush()
        os.fsync(file.fileno())
    return scratch

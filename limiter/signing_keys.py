"""Keys of policy snapshots: the newest signs, all listed ones verify. Rotation adds one and later takes one away."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from limiter.snapshot import key_id

if TYPE_CHECKING:
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


def _read(path: Path) -> list[str]:
    found: list[str] = json.loads(path.read_text())
    return found


def _write_once(path: Path, keys: list[str]) -> None:
    """The file appears whole or not at all; whoever came first wins."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        json.dump(keys, file)
    try:
        os.link(scratch, path)
    except FileExistsError:
        pass
    finally:
        scratch.unlink()

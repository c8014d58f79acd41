"""Seals: a tenant's key under a root key, a payload under its tenant's key. AES-256-GCM, bound to what it is of.

Nonces are random: a key seals far fewer than 2^32 payloads between two rotations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from schemas import errors, sealing

if TYPE_CHECKING:
    from sinks.tenancy.secrets_file import TenancySecrets

_VERSION_BYTES: Final = 8


def _bound(*names: object) -> bytes:
    return sealing.SEPARATOR.join(("millrace/tenancy", *map(str, names))).encode()


class RootKeys:
    """Wraps and unwraps keys of tenants; without secrets there is none that it could."""

    def __init__(self, held: TenancySecrets | None) -> None:
        self._keys = held.root_keys if held else {}
        self.newest = held.root_key_id if held else ""

    def new_wrapped(self, tenant_id: str, key_version: int) -> bytes:
        """A new key of a tenant, wrapped by the newest root key."""
        bound = _bound("key", tenant_id, key_version)
        return sealing.encrypt(self._keys[self.newest], secrets.token_bytes(sealing.KEY_BYTES), bound)

    def unwrap(self, tenant_id: str, key_version: int, root_key_id: str, wrapped: bytes) -> bytes:
        """The key. Raises SealBroken, and Unavailable where the root key is not at hand."""
        key = self._keys.get(root_key_id)
        if key is None:
            raise errors.Unavailable("The root key of this tenant's key is not at hand.")
        return sealing.decrypt(key, wrapped, _bound("key", tenant_id, key_version))


def seal(plain: bytes, key: bytes, key_version: int, tenant_id: str, place: str) -> bytes:
    """The plaintext under a tenant's key, for one place (a resource); the version of the key stands before it."""
    closed = sealing.encrypt(key, plain, _bound("payload", tenant_id, place, key_version))
    return key_version.to_bytes(_VERSION_BYTES, "big") + closed


def key_version_of(sealed: bytes) -> int:
    """Which version of the tenant's key opens it."""
    return int.from_bytes(sealed[:_VERSION_BYTES], "big")


def unseal(sealed: bytes, key: bytes, tenant_id: str, place: str) -> bytes:
    """The plaintext. Raises SealBroken for what was changed, or sealed for another tenant or place."""
    bound = _bound("payload", tenant_id, place, key_version_of(sealed))
    return sealing.decrypt(key, sealed[_VERSION_BYTES:], bound)


def keyed_hash(key: bytes, plain: bytes) -> bytes:
    """HMAC-SHA-256 of a hash: tells a retry from another request, and says nothing of the payload without the key."""
    return hmac.new(key, _bound("request_hash") + plain, hashlib.sha256).digest()


def as_text(sealed: bytes) -> str:
    """As it travels in commands and results."""
    return base64.b64encode(sealed).decode()


def from_text(text: str) -> bytes:
    """The reverse of ``as_text``. Raises SealBroken."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise sealing.SealBroken from error

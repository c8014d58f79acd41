"""Seals: what is kept of a tenant, each purpose under a key of its own. AES-256-GCM, bound to what it is of.

A version of a tenant's key seals nothing itself: the keys of its purposes are derived from it (HKDF-Expand, RFC 5869).
So a key of one purpose opens nothing of another, and all of them end with the one key that the root key wraps. What was
sealed before there were purposes lies under the tenant's key itself: it is opened, and nothing more is sealed so.

Nonces are random: a key seals far fewer than 2^32 payloads between two rotations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, Literal

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from schemas.crypto import sealing

#: resources: payloads, wherever they lie or travel; exports: the parts of exports
Purpose = Literal["resources", "exports"]
#: by which number what is sealed names its purpose, for ever; 0 is of what was sealed before there were any
PURPOSES: Final[dict[Purpose, int]] = {"resources": 1, "exports": 2}
_HEAD_BYTES: Final = 8  # the number of the purpose, and the version of the key
_VERSION: Final = slice(1, _HEAD_BYTES)


def bound(*names: object) -> bytes:
    """What something sealed is bound to: the kind of thing, and what it is of."""
    return sealing.SEPARATOR.join(("millrace/tenancy", *map(str, names))).encode()


class TenantKey:
    """One version of a tenant's key in the clear, with the keys of its purposes. No text of this shows one."""

    __slots__ = ("_key", "_of_purposes", "_tenant_id", "key_version")

    def __init__(self, tenant_id: str, key_version: int, key: bytes) -> None:
        self._tenant_id = tenant_id
        self._key = key
        self._of_purposes: dict[Purpose, bytes] = {}
        self.key_version = key_version

    def seal(self, purpose: Purpose, place: str, plain: bytes) -> bytes:
        """The plaintext for one place (a resource, a part of an export); purpose and version stand before it."""
        closed = sealing.encrypt(self._of(purpose), plain, self._bound(purpose, place))
        return self._head(PURPOSES[purpose]) + closed

    def unseal(self, purpose: Purpose, place: str, sealed: bytes) -> bytes:
        """The plaintext. Raises SealBroken for what was changed, or sealed for another tenant, purpose or place."""
        head, closed = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES:]
        if head == self._head(PURPOSES[purpose]):
            return sealing.decrypt(self._of(purpose), closed, self._bound(purpose, place))
        if head == self._head(0):
            return sealing.decrypt(self._key, closed, bound("payload", self._tenant_id, place, self.key_version))
        raise sealing.SealBroken

    def keyed_hash(self, plain: bytes) -> bytes:
        """HMAC-SHA-256 of a hash: tells a retry from another request, and says nothing of the payload without the key.

        It is the function that derives the keys of purposes, under a name of its own: the same hash in every release.
        """
        return hmac.new(self._key, bound("request_hash") + plain, hashlib.sha256).digest()

    def _of(self, purpose: Purpose) -> bytes:
        found = self._of_purposes.get(purpose)
        if found is None:
            named = bound("purpose", purpose, self._tenant_id, self.key_version)
            found = self._of_purposes[purpose] = HKDFExpand(SHA256(), sealing.KEY_BYTES, named).derive(self._key)
        return found

    def _bound(self, purpose: Purpose, place: str) -> bytes:
        return bound("sealed", purpose, self._tenant_id, place, self.key_version)

    def _head(self, purpose: int) -> bytes:
        return bytes([purpose]) + self.key_version.to_bytes(_HEAD_BYTES - 1, "big")


def head_of(purpose: Purpose, key_version: int) -> bytes:
    """How all begins that this version of a key seals for a purpose."""
    return bytes([PURPOSES[purpose]]) + key_version.to_bytes(_HEAD_BYTES - 1, "big")


def is_of(sealed: bytes, purpose: Purpose, key_version: int) -> bool:
    """Whether it is sealed for that purpose under this version of the tenant's key."""
    return sealed[:_HEAD_BYTES] == head_of(purpose, key_version)


def key_version_of(sealed: bytes) -> int:
    """Which version of the tenant's key opens it."""
    return int.from_bytes(sealed[_VERSION], "big")


def as_text(sealed: bytes) -> str:
    """As it travels in commands and results."""
    return base64.b64encode(sealed).decode()


def from_text(text: str) -> bytes:
    """The reverse of ``as_text``. Raises SealBroken."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise sealing.SealBroken from error

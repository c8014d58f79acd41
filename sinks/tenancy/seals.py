"""Seals: a payload under its tenant's key. AES-256-GCM, bound to what it is of.

Nonces are random: a key seals far fewer than 2^32 payloads between two rotations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from schemas import sealing

_VERSION_BYTES: Final = 8


def bound(*names: object) -> bytes:
    """What something sealed is bound to: the kind of thing, and what it is of."""
    return sealing.SEPARATOR.join(("millrace/tenancy", *map(str, names))).encode()


def seal(plain: bytes, key: bytes, key_version: int, tenant_id: str, place: str) -> bytes:
    """The plaintext under a tenant's key, for one place (a resource); the version of the key stands before it."""
    closed = sealing.encrypt(key, plain, bound("payload", tenant_id, place, key_version))
    return key_version.to_bytes(_VERSION_BYTES, "big") + closed


def key_version_of(sealed: bytes) -> int:
    """Which version of the tenant's key opens it."""
    return int.from_bytes(sealed[:_VERSION_BYTES], "big")


def unseal(sealed: bytes, key: bytes, tenant_id: str, place: str) -> bytes:
    """The plaintext. Raises SealBroken for what was changed, or sealed for another tenant or place."""
    place_of_it = bound("payload", tenant_id, place, key_version_of(sealed))
    return sealing.decrypt(key, sealed[_VERSION_BYTES:], place_of_it)


def keyed_hash(key: bytes, plain: bytes) -> bytes:
    """HMAC-SHA-256 of a hash: tells a retry from another request, and says nothing of the payload without the key."""
    return hmac.new(key, bound("request_hash") + plain, hashlib.sha256).digest()


def as_text(sealed: bytes) -> str:
    """As it travels in commands and results."""
    return base64.b64encode(sealed).decode()


def from_text(text: str) -> bytes:
    """The reverse of ``as_text``. Raises SealBroken."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise sealing.SealBroken from error

"""Signed policy snapshots: canonical JSON with a detached Ed25519 signature. What is not surely ours is not used.

A gateway takes a snapshot only when the key is known, the signature is there and right, the revision is not below the
last one (rollback guard) and it is not expired; otherwise it keeps the one it has and says so. Source: reference
limiter 2.9; OPA's advisory GHSA-g2pf-6v5v-qcc8 on stripped signatures.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from limiter.policy.shard_map import ShardMap
from schemas.calendar_windows import CalendarWindows
from schemas.errors import PlatformError
from schemas.limiter.limit_policy import LimitPolicy

_canonical: Final = msgspec.json.Encoder(order="deterministic")
_KEY_ID_LENGTH: Final = 16


class SnapshotRefused(PlatformError):
    """A snapshot that must not be used; the message says why."""

    code = "snapshot_refused"


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything in force at one revision. Times are seconds since the epoch."""

    revision: int
    issued_at: int
    not_after: int
    policies: list[LimitPolicy]
    shards: ShardMap | None = None  # where their counters are
    calendars: tuple[CalendarWindows, ...] = ()  # of their windows by time zone: gateways compute none
    denied: tuple[str, ...] = ()  # digests of keys whose callers are not let in any more


class Envelope(Struct, frozen=True, kw_only=True):
    """A snapshot as it travels: the signed text itself, so that no reader has to write it again."""

    snapshot: str
    key_id: str | None = None
    signature: str | None = None


def sign(snapshot: Snapshot, key: Ed25519PrivateKey) -> bytes:
    """The document that gateways fetch."""
    text = _canonical.encode(snapshot)
    signature = base64.b64encode(key.sign(text)).decode()
    return msgspec.json.encode(Envelope(snapshot=text.decode(), key_id=key_id(key.public_key()), signature=signature))


def key_id(key: Ed25519PublicKey) -> str:
    """A public key's name."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:_KEY_ID_LENGTH]


def digest(document: bytes) -> str:
    """The name of a document: its SHA-256."""
    return hashlib.sha256(document).hexdigest()


def verified(document: bytes, keys: dict[str, Ed25519PublicKey], last_revision: int, now_s: float) -> Snapshot:
    """The snapshot of a document. Raises SnapshotRefused."""
    try:
        envelope = msgspec.json.decode(document, type=Envelope)
        if envelope.key_id is None or envelope.signature is None:
            raise SnapshotRefused("The snapshot is not signed.")
        key = keys.get(envelope.key_id)
        if key is None:
            raise SnapshotRefused("The snapshot is signed by a key that is not known.")
        key.verify(base64.b64decode(envelope.signature, validate=True), envelope.snapshot.encode())
        snapshot = msgspec.json.decode(envelope.snapshot, type=Snapshot)
    except InvalidSignature as error:
        raise SnapshotRefused("The signature of the snapshot is wrong.") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise SnapshotRefused("The snapshot cannot be read.") from error
    if snapshot.revision < last_revision:
        raise SnapshotRefused("The snapshot is older than the one in use.")
    if snapshot.not_after <= now_s:
        raise SnapshotRefused("The snapshot is expired.")
    return snapshot


def described(snapshot: Snapshot) -> dict[str, Any]:
    """What a log line may say of it."""
    return {"revision": snapshot.revision, "policies": len(snapshot.policies), "not_after": snapshot.not_after}

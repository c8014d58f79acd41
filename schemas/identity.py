"""Identities: ids derived from the caller's retry identity, and the hash that tells a retry from another request."""

from __future__ import annotations

import base64
import hashlib

import msgspec

_canonical = msgspec.json.Encoder(order="deterministic")


def derived_id(prefix: str, scope: str, operation: str, idempotency_key: str) -> str:
    """The id that a create makes: a retried create has the same id, hence the same partition and owner."""
    digest = hashlib.sha256(f"{scope}\x1f{operation}\x1f{idempotency_key}".encode()).digest()
    return f"{prefix}_{base64.b32encode(digest[:17])[:26].decode().lower()}"


def request_hash(operation: str, aggregate_key: str, payload: dict[str, object]) -> bytes:
    """SHA-256 of operation, aggregate and canonical payload (32 bytes); equal for a retry, whatever its form."""
    return hashlib.sha256(f"{operation}\x1f{aggregate_key}\x1f".encode() + _canonical.encode(payload)).digest()


def operation_id(intent_id: str, attempt: int) -> str:
    """The stable identity of one processor attempt: sent as the processor's idempotency key on every send."""
    return f"op_{intent_id.removeprefix('pi_')}_{attempt}"


def event_id(service_code: str, partition: int, seq: int) -> str:
    """The immutable identity of an event: its place in its service's stream."""
    return f"evt_{service_code}{partition:04x}{seq:012x}"

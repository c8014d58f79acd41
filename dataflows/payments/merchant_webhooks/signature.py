"""How a delivery proves that it is ours: Standard Webhooks 1.0, symmetric. In a rotation every valid secret signs."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

_PREFIX: Final = "whsec_"


def headers(event_id: str, body: bytes, now: int, secrets: Sequence[str]) -> dict[str, str]:
    """The headers of one try at ``now`` (seconds); the id is the event's, the same on every try."""
    signed = f"{event_id}.{now}.".encode() + body
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(f"v1,{_mac(secret, signed)}" for secret in secrets),
    }


def _mac(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()

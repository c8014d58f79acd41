"""Who sent these bytes: the schemes that processors sign webhooks with. If this were wrong, anybody could move money.

Every check works on the raw bytes, tries all active secrets (a rotation has two) and compares in constant time. What is
not verified is ``InvalidSignature``, whatever is wrong with it: a forger learns nothing from the answer.
Sources: Standard Webhooks 1.0; Stripe's scheme v1; Adyen's HMAC of notification items.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from schemas import errors
from schemas.payments import limits

#: schemes, each with a processor of its name; others of a scheme are named after it: schemas.payments.processors
PROCESSORS: Final = ("stripe", "adyen", "standard", "simulator")
_PREFIX: Final = "whsec_"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_HEX_MAC: Final = re.compile(r"[0-9a-f]{64}")
_MESSAGE_ID: Final = re.compile(rf"[A-Za-z0-9_:-]{{1,{limits.WEBHOOK_EVENT_ID_LENGTH_MAX}}}")
_ADYEN_FIELDS: Final = ("pspReference", "originalReference", "merchantAccountCode", "merchantReference")


class InvalidSignature(errors.Rejected):
    """The webhook is not signed by its processor, or not signed now."""

    code = "invalid_signature"


def read_secrets(processor: str, secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The keys of a processor's secrets. Raises ValueError, which names no secret, on a wrong form."""
    keys = tuple(_READ.get(processor, _standard_key)(secret) for secret in secrets)
    if not keys or any(len(key) < limits.WEBHOOK_SECRET_BYTES_MIN for key in keys):
        raise ValueError(f"give secrets of at least {limits.WEBHOOK_SECRET_BYTES_MIN} bytes, separated by commas")
    return keys


def _standard_key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        raise ValueError("a secret of Standard Webhooks is base64 after whsec_") from None


def _adyen_key(secret: str) -> bytes:
    try:
        return binascii.a2b_hex(secret)
    except ValueError:
        raise ValueError("an HMAC key of Adyen is written in hexadecimal digits") from None


_READ: Final[dict[str, Callable[[str], bytes]]] = {"stripe": str.encode, "adyen": _adyen_key}


def check_standard(
    raw: bytes, message_id: str, timestamp: str, signatures: str, keys: Sequence[bytes], now: float
) -> None:
    """Returns when one of the signatures is one of ours over id, time and bytes. Raises InvalidSignature."""
    _check_time(timestamp, now)
    if not _MESSAGE_ID.fullmatch(message_id):  # also: no full stop, so that the signed text is cut one way only
        raise InvalidSignature
    signed = f"{message_id}.{timestamp}.".encode() + raw
    given = [_decoded(text.removeprefix("v1,")) for text in _bounded(signatures, " ") if text.startswith("v1,")]
    _check_any(given, [_mac(key, signed) for key in keys])


def check_stripe(raw: bytes, header: str, keys: Sequence[bytes], now: float) -> None:
    """Returns when a v1 signature of the header is ours over its time and the bytes. Raises InvalidSignature."""
    timestamps: list[str] = []
    given: list[bytes] = []
    for part in _bounded(header, ","):
        name, _, value = part.partition("=")
        if name == "t":
            timestamps.append(value)
        elif name == "v1" and _HEX_MAC.fullmatch(value):
            given.append(bytes.fromhex(value))
    if len(timestamps) != 1:
        raise InvalidSignature
    _check_time(timestamps[0], now)
    signed = f"{timestamps[0]}.".encode() + raw
    _check_any(given, [_mac(key, signed) for key in keys])


def is_adyen_item(item: dict[str, Any], keys: Sequence[bytes]) -> bool:
    """Whether this notification item carries a signature of its fields with one of our keys; never raises."""
    text = adyen_signed_text(item)
    extra = item.get("additionalData")
    signature = extra.get("hmacSignature") if isinstance(extra, dict) else None
    if text is None or not isinstance(signature, str):
        return False
    given = [_decoded(signature)]
    return _is_any(given, [_mac(key, text.encode(errors="surrogatepass")) for key in keys])


def adyen_signed_text(item: dict[str, Any]) -> str | None:
    """What Adyen signs of an item; None when a field is no text, or has a colon, which could make two items alike."""
    amount = item.get("amount")
    if not isinstance(amount, dict) or type(amount.get("value")) is not int:
        return None
    fields = [item.get(name) or "" for name in _ADYEN_FIELDS]
    fields += [str(amount["value"]), amount.get("currency"), item.get("eventCode"), item.get("success")]
    if any(not isinstance(field, str) or ":" in field for field in fields):
        return None
    return ":".join(fields)


def _bounded(header: str, separator: str) -> list[str]:
    """The parts of a header; none of one that is longer than any honest sender's."""
    if len(header) > limits.WEBHOOK_HEADER_BYTES_MAX:
        return []
    parts = header.split(separator)
    return parts if len(parts) <= limits.WEBHOOK_SIGNATURES_MAX else []


def _check_time(timestamp: str, now: float) -> None:
    if not _SECONDS.fullmatch(timestamp) or abs(now - int(timestamp)) > limits.WEBHOOK_TOLERANCE_S:
        raise InvalidSignature


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also what is not ASCII
        return b""


def _mac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _check_any(given: Sequence[bytes], expected: Sequence[bytes]) -> None:
    if not _is_any(given, expected):
        raise InvalidSignature


def _is_any(given: Sequence[bytes], expected: Sequence[bytes]) -> bool:
    """Compares every pair, in constant time and without an early end."""
    matches = [hmac.compare_digest(one, other) for one in given for other in expected]
    return any(matches)

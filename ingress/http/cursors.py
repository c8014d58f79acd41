"""Cursors: opaque places in a list, signed, and bound to the caller and to the list with its filters.

A cursor that was forged, altered, or made for another caller or list is refused, so a client can never choose
what the database is asked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final, TypeVar

import msgspec

from ingress import limits
from schemas import errors

_SIGNATURE_BYTES: Final = 16
_encode: Final = msgspec.msgpack.Encoder().encode

Place = TypeVar("Place")


class Cursors:
    """Signs and reads cursors with a secret that all ingress processes share."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def write(self, merchant: str, name: str, place: Any) -> str:
        """The cursor of a place (anything msgpack can hold) in the caller's list of that name."""
        body = _encode(place)
        return _text(self._sign(merchant, name, body) + body)

    def read(self, merchant: str, name: str, text: str, kind: type[Place]) -> Place:
        """The place that the cursor holds. Raises MalformedRequest for any text that we did not sign for this use."""
        if len(text) > limits.QUERY_TEXT_LENGTH_MAX:
            raise _refusal()
        try:
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise _refusal() from error
        if _text(raw) != text:
            raise _refusal()  # base64 has spare bits: one place has one text
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(merchant, name, body)):
            raise _refusal()
        return msgspec.msgpack.decode(body, type=kind)

    def _sign(self, merchant: str, name: str, body: bytes) -> bytes:
        text = f"{merchant}\x1f{name}\x1f".encode() + body
        return hmac.new(self._secret, text, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _refusal() -> errors.MalformedRequest:
    return errors.MalformedRequest("The cursor is not one that this list gave to you.")

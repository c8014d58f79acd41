"""Cursors: opaque places in a list, sealed, and bound to the caller and to the list with its filters.

A cursor that was forged, altered, or made for another caller or list is refused, so a client can never choose
what the database is asked. Nor can it read one: the place may be that of an entry which it may not see.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import hmac
from typing import Any, Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ingress import limits
from schemas import errors
from sinks.kept_secrets import Secrets, secrets_of

_SIGNATURE_BYTES: Final = 16
_SEAL_KEY_BYTES: Final = 64  # AES-256-SIV has two keys in one
_SEAL_PURPOSE: Final = b"millrace cursors, sealed with AES-SIV"
_encode: Final = msgspec.msgpack.Encoder().encode

Place = TypeVar("Place")


class Cursors:
    """Seals and opens cursors with secrets that all ingress processes share: by the first, of any.

    The same place has the same text, which needs no nonce to be kept apart. Cursors that an earlier release only
    signed are believed as long as the secret that signed them.
    """

    def __init__(self, secret: bytes | Secrets) -> None:
        self._secrets = secrets_of(secret)

    def write(self, merchant: str, name: str, place: Any) -> str:
        """The cursor of a place (anything msgpack can hold) in the caller's list of that name."""
        return _text(_seal(self._secrets()[0]).encrypt(_encode(place), _bound(merchant, name)))

    def read(self, merchant: str, name: str, text: str, kind: type[Place]) -> Place:
        """The place that the cursor holds. Raises MalformedRequest for any text that we did not make for this use."""
        if len(text) > limits.QUERY_TEXT_LENGTH_MAX:
            raise _refusal()
        try:
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise _refusal() from error
        if _text(raw) != text:
            raise _refusal()  # base64 has spare bits: one place has one text
        return msgspec.msgpack.decode(self._opened(merchant, name, raw), type=kind)

    def _opened(self, merchant: str, name: str, raw: bytes) -> bytes:
        known, bound = self._secrets(), _bound(merchant, name)
        for secret in known:
            try:
                return _seal(secret).decrypt(raw, bound)
            except InvalidTag:
                continue
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if any(hmac.compare_digest(signature, _signed(secret, merchant, name, body)) for secret in known):
            return body
        raise _refusal()


@functools.lru_cache(maxsize=limits.CURSOR_SEALS_KEPT)
def _seal(secret: bytes) -> AESSIV:
    return AESSIV(HKDF(hashes.SHA256(), _SEAL_KEY_BYTES, salt=None, info=_SEAL_PURPOSE).derive(secret))


def _bound(merchant: str, name: str) -> list[bytes]:
    return [_encode((merchant, name))]


def _signed(secret: bytes, merchant: str, name: str, body: bytes) -> bytes:
    text = f"{merchant}\x1f{name}\x1f".encode() + body
    return hmac.new(secret, text, hashlib.sha256).digest()[:_SIGNATURE_BYTES]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _refusal() -> errors.MalformedRequest:
    return errors.MalformedRequest("The cursor is not one that this list gave to you.")

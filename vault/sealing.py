"""Envelope encryption of one card: a data key of its own, wrapped by a key-encryption key. AES-256-GCM both times.

What is sealed is bound to its token and merchant: moved to another row it does not open. If a nonce were ever used
twice with one key, GCM would leak; data keys are used once, and wrapping nonces are random over few million wraps.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from schemas import errors
from vault.card import Card

if TYPE_CHECKING:
    from vault.key_file import KeyRing

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_PADDED_BYTES: Final = 96  # every plaintext has this size, so that a ciphertext does not tell a number's length
_FINGERPRINT_BYTES: Final = 16
_SEPARATOR: Final = "\x1f"
_encode: Final = msgspec.json.Encoder().encode


class _Plaintext(msgspec.Struct, frozen=True):
    number: str
    network: str
    exp_month: int
    exp_year: int


_decode: Final = msgspec.json.Decoder(_Plaintext).decode


class CardUnreadable(errors.PlatformError):
    """A stored card does not open: it was changed, moved, or sealed with another key."""


class KeyMissing(errors.Unavailable):
    """The vault does not hold the key that this card was sealed with; try again with the same identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A card as it lies in the database."""

    key_id: str
    wrapped_key: bytes = field(repr=False)  # nonce, data key, tag
    ciphertext: bytes = field(repr=False)  # nonce, padded card, tag


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed card belongs, and nowhere else opens."""

    token_id: str
    merchant_id: str

    def bound_to(self, purpose: str, key_id: str = "") -> bytes:
        """The additional authenticated data of one use."""
        return _SEPARATOR.join(("millrace-vault-1", purpose, key_id, self.token_id, self.merchant_id)).encode()


def seal(card: Card, place: Place, key_id: str, ring: KeyRing) -> Sealed:
    """The card under a data key that was made for it. Raises KeyMissing."""
    data_key = secrets.token_bytes(_KEY_BYTES)
    text = _encode(_Plaintext(card.number, card.network, card.exp_month, card.exp_year)).ljust(_PADDED_BYTES)
    return Sealed(
        key_id=key_id,
        wrapped_key=_encrypt(_wrapping_key(ring, key_id), data_key, place.bound_to("key", key_id)),
        ciphertext=_encrypt(data_key, text, place.bound_to("card")),
    )


def unseal(sealed: Sealed, place: Place, ring: KeyRing) -> Card:
    """The card. Raises KeyMissing, or CardUnreadable when anything about it is not as it was sealed."""
    text = _decrypt(_data_key(sealed, place, ring), sealed.ciphertext, place.bound_to("card"), place)
    try:
        plain = _decode(text)
    except msgspec.DecodeError as error:
        raise CardUnreadable(token=place.token_id) from error
    return Card(number=plain.number, network=plain.network, exp_month=plain.exp_month, exp_year=plain.exp_year)


def rewrapped(sealed: Sealed, place: Place, key_id: str, ring: KeyRing) -> Sealed:
    """The same card with its data key under another key; the card itself stays closed. Raises as ``unseal``."""
    data_key = _data_key(sealed, place, ring)
    wrapped = _encrypt(_wrapping_key(ring, key_id), data_key, place.bound_to("key", key_id))
    return Sealed(key_id=key_id, wrapped_key=wrapped, ciphertext=sealed.ciphertext)


def fingerprint(number: str, merchant_id: str, ring: KeyRing) -> str:
    """Equal for the same number of the same merchant, and for nothing else; without the key it says nothing."""
    digest = _mac(ring, "fingerprint", merchant_id, number)[:_FINGERPRINT_BYTES]
    return base64.b32encode(digest).decode().rstrip("=").lower()


def request_digest(card: Card, merchant_id: str, ring: KeyRing) -> bytes:
    """What tells a retry from another request with its key. Keyed: of a plain hash every number could be guessed."""
    return _mac(ring, "request", merchant_id, card.number, str(card.exp_month), str(card.exp_year))


def key_digest(idempotency_key: str, merchant_id: str, ring: KeyRing) -> bytes:
    """A caller's idempotency key as it is stored: a careless caller may have put a card number into it."""
    return _mac(ring, "idempotency", merchant_id, idempotency_key)


def check_value(key: bytes, key_id: str) -> bytes:
    """Tells in the database which key an id stands for, without telling the key."""
    return hmac.digest(key, f"millrace-vault-1{_SEPARATOR}check{_SEPARATOR}{key_id}".encode(), hashlib.sha256)


def _mac(ring: KeyRing, purpose: str, *parts: str) -> bytes:
    """HMAC-SHA256 under a key of this purpose alone, derived from the ring's MAC key."""
    own_key = hmac.digest(ring.mac_key, f"millrace-vault-1{_SEPARATOR}{purpose}".encode(), hashlib.sha256)
    return hmac.digest(own_key, _SEPARATOR.join(parts).encode(), hashlib.sha256)


def _wrapping_key(ring: KeyRing, key_id: str) -> bytes:
    key = ring.wrapping_keys.get(key_id)
    if key is None:
        raise KeyMissing(key_id=key_id)
    return key


def _data_key(sealed: Sealed, place: Place, ring: KeyRing) -> bytes:
    key = _wrapping_key(ring, sealed.key_id)
    return _decrypt(key, sealed.wrapped_key, place.bound_to("key", sealed.key_id), place)


def _encrypt(key: bytes, plain: bytes, bound_to: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def _decrypt(key: bytes, data: bytes, bound_to: bytes, place: Place) -> bytes:
    try:
        return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError) as error:  # ValueError: too short to be anything
        raise CardUnreadable(token=place.token_id) from error

"""Envelope encryption of one card (``schemas.crypto.sealing``), and the digests by which cards and requests are known.

What is sealed is bound to its token and merchant: moved to another row it does not open.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from schemas import errors
from schemas.crypto import sealing
from schemas.crypto.sealing import SEPARATOR, KeyMissing, Sealed
from vault.card import Card

if TYPE_CHECKING:
    from vault.key_file import KeyRing

__all__ = ["CardUnreadable", "KeyMissing", "Place", "Sealed"]
_DOMAIN: Final = "millrace-vault-1"
_PADDED_BYTES: Final = 96  # every plaintext has this size, so that a ciphertext does not tell a number's length
_FINGERPRINT_BYTES: Final = 16
_encode: Final = msgspec.json.Encoder().encode


class _Plaintext(msgspec.Struct, frozen=True):
    number: str
    network: str
    exp_month: int
    exp_year: int


_decode: Final = msgspec.json.Decoder(_Plaintext).decode


class CardUnreadable(errors.PlatformError):
    """A stored card does not open: it was changed, moved, or sealed with another key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed card belongs, and nowhere else opens."""

    token_id: str
    merchant_id: str

    @property
    def binding(self) -> sealing.Binding:
        """What the card is bound to."""
        return sealing.Binding(_DOMAIN, "card", (self.token_id, self.merchant_id))


def seal(card: Card, place: Place, key_id: str, ring: KeyRing) -> Sealed:
    """The card under a data key that was made for it. Raises KeyMissing."""
    text = _encode(_Plaintext(card.number, card.network, card.exp_month, card.exp_year)).ljust(_PADDED_BYTES)
    return sealing.seal(text, place.binding, key_id, ring.wrapping_keys)


def unseal(sealed: Sealed, place: Place, ring: KeyRing) -> Card:
    """The card. Raises KeyMissing, or CardUnreadable when anything about it is not as it was sealed."""
    try:
        plain = _decode(sealing.unseal(sealed, place.binding, ring.wrapping_keys))
    except (sealing.SealBroken, msgspec.DecodeError) as error:
        raise CardUnreadable(token=place.token_id) from error
    return Card(number=plain.number, network=plain.network, exp_month=plain.exp_month, exp_year=plain.exp_year)


def rewrapped(sealed: Sealed, place: Place, key_id: str, ring: KeyRing) -> Sealed:
    """The same card with its data key under another key; the card itself stays closed. Raises as ``unseal``."""
    try:
        return sealing.rewrapped(sealed, place.binding, key_id, ring.wrapping_keys)
    except sealing.SealBroken as error:
        raise CardUnreadable(token=place.token_id) from error


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
    return hmac.digest(key, f"{_DOMAIN}{SEPARATOR}check{SEPARATOR}{key_id}".encode(), hashlib.sha256)


def _mac(ring: KeyRing, purpose: str, *parts: str) -> bytes:
    """HMAC-SHA256 under a key of this purpose alone, derived from the ring's MAC key."""
    own_key = hmac.digest(ring.mac_key, f"{_DOMAIN}{SEPARATOR}{purpose}".encode(), hashlib.sha256)
    return hmac.digest(own_key, SEPARATOR.join(parts).encode(), hashlib.sha256)

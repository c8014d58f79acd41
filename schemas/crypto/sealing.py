"""Envelope encryption of a secret in a table: a data key of its own, wrapped by another key. AES-256-GCM both times.

What is sealed is bound to its place (a row, an owner): moved to another one it does not open. If a nonce were ever used
twice with one key, GCM would leak; data keys are used once, and wrapping nonces are random over few million wraps.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from schemas import errors

KEY_BYTES: Final = 32
SEPARATOR: Final = "\x1f"
_NONCE_BYTES: Final = 12
_OF_KEY: Final = "key"  # the purpose of a wrapped data key

Keys = Mapping[str, bytes]  # key-encryption keys by id; never log them


class SealBroken(errors.PlatformError):
    """What was sealed does not open: it was changed, moved, or sealed with another key."""


class KeyMissing(errors.Unavailable):
    """The key that this was sealed with is not at hand; try again with the same identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A secret as it lies in the database."""

    key_id: str
    wrapped_key: bytes = field(repr=False)  # nonce, data key, tag
    ciphertext: bytes = field(repr=False)  # nonce, plaintext, tag


@dataclass(frozen=True, slots=True)
class Binding:
    """Where something sealed belongs, and nowhere else opens: a domain, what it is there, the names of its place."""

    domain: str
    content: str
    names: tuple[str, ...]

    def data(self, purpose: str, key_id: str = "") -> bytes:
        """The additional authenticated data of one use."""
        return SEPARATOR.join((self.domain, purpose, key_id, *self.names)).encode()


def seal(plain: bytes, binding: Binding, key_id: str, keys: Keys) -> Sealed:
    """The plaintext under a data key that was made for it. Raises KeyMissing."""
    data_key = secrets.token_bytes(KEY_BYTES)
    return Sealed(
        key_id=key_id,
        wrapped_key=encrypt(_wrapping_key(keys, key_id), data_key, binding.data(_OF_KEY, key_id)),
        ciphertext=encrypt(data_key, plain, binding.data(binding.content)),
    )


def unseal(sealed: Sealed, binding: Binding, keys: Keys) -> bytes:
    """The plaintext. Raises KeyMissing, or SealBroken when anything about it is not as it was sealed."""
    return decrypt(_data_key(sealed, binding, keys), sealed.ciphertext, binding.data(binding.content))


def rewrapped(sealed: Sealed, binding: Binding, key_id: str, keys: Keys) -> Sealed:
    """The same secret with its data key under another key; it stays closed itself. Raises as ``unseal``."""
    data_key = _data_key(sealed, binding, keys)
    wrapped = encrypt(_wrapping_key(keys, key_id), data_key, binding.data(_OF_KEY, key_id))
    return Sealed(key_id=key_id, wrapped_key=wrapped, ciphertext=sealed.ciphertext)


def _wrapping_key(keys: Keys, key_id: str) -> bytes:
    key = keys.get(key_id)
    if key is None:
        raise KeyMissing(key_id=key_id)
    return key


def _data_key(sealed: Sealed, binding: Binding, keys: Keys) -> bytes:
    key = _wrapping_key(keys, sealed.key_id)
    return decrypt(key, sealed.wrapped_key, binding.data(_OF_KEY, sealed.key_id))


def encrypt(key: bytes, plain: bytes, bound_to: bytes) -> bytes:
    """Nonce, ciphertext, tag: opens with this key and these additional data only (AES-256-GCM, a random nonce)."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def decrypt(key: bytes, data: bytes, bound_to: bytes) -> bytes:
    """The reverse of ``encrypt``. Raises SealBroken."""
    try:
        return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError) as error:  # ValueError: too short to be anything
        raise SealBroken from error

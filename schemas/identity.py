"""Identities: ids derived from the caller's retry identity, and the hash that tells a retry from another request."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

import msgspec

from schemas import limits

OPERATOR_SCOPE: Final = "operator:"  # of a person's command; no merchant has a colon in its name
#: what a request may be called
REQUEST_ID: Final = re.compile(rf"[A-Za-z0-9._:~-]{{1,{limits.REQUEST_ID_LENGTH_MAX}}}\Z")
_CARD_TOKEN = re.compile(r"tok_[a-z2-7]{24}")  # the simulator's own tokens, tok_sim_*, have an underscore more
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
#: two characters of base32 at a time: a third of what the standard library takes for an id
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_PAIR_SHIFTS: Final = range(120, -1, -10)
_DERIVED_BITS_OVER: Final = 17 * 8 - 26 * 5  # of 17 bytes, less 26 characters
_DERIVED = re.compile(r"[a-z]+_[a-z2-7]{26}")
_ORDINAL_DIGITS = 9  # of an attempt's number, an Avro int
_PART_CHARACTERS = 10  # 50 bits, beside the id of its payment
#: characters that the id of a part has more than its payment's; their prefixes are as long
PART_LONGER: Final = len("_") + _PART_CHARACTERS
_ACCOUNT_CHARACTERS = 16  # 80 bits
_PAYOUT_CHARACTERS = 14  # 70 bits, beside those of its account
_canonical = msgspec.json.Encoder(order="deterministic")


def derived_id(prefix: str, scope: str, operation: str, idempotency_key: str) -> str:
    """The id that a create makes: a retried create has the same id, hence the same partition and owner."""
    digest = hashlib.sha256(f"{scope}\x1f{operation}\x1f{idempotency_key}".encode()).digest()
    number = int.from_bytes(digest[:17]) >> _DERIVED_BITS_OVER
    return f"{prefix}_{''.join([_PAIRS[number >> shift & 1023] for shift in _PAIR_SHIFTS])}"


def is_derived(text: str) -> bool:
    """Whether it has the form of a ``derived_id``, whoever it is of."""
    return _DERIVED.fullmatch(text) is not None


def request_hash(operation: str, aggregate_key: str, payload: dict[str, object]) -> bytes:
    """SHA-256 of operation, aggregate and canonical payload (32 bytes); equal for a retry, whatever its form."""
    return hashlib.sha256(f"{operation}\x1f{aggregate_key}\x1f".encode() + _canonical.encode(payload)).digest()


def lot(*identity: str) -> int:
    """The number of 64 bits that an identity draws: evenly spread, and the same for ever."""
    return int.from_bytes(hashlib.sha256("\x1f".join(identity).encode()).digest()[:8])


def operation_id(intent_id: str, attempt: int) -> str:
    """The stable identity of one processor attempt: sent as the processor's idempotency key on every send."""
    return f"op_{intent_id.removeprefix('pi_')}_{attempt}"


def place_of_operation(operation: str) -> tuple[str, int] | None:
    """The intent and the number of the attempt that an operation id names; None when it is none of ours."""
    prefix, _, rest = operation.partition("_")
    intent, _, attempt = rest.rpartition("_")
    if prefix != "op" or not intent or not (attempt.isascii() and attempt.isdigit()) or len(attempt) > _ORDINAL_DIGITS:
        return None
    return f"pi_{intent}", int(attempt)


def part_id(prefix: str, intent_id: str, *identity: str) -> str:
    """The id of a part of a payment (a refund, a dispute). It names its payment, so that a command finds its owner."""
    digest = hashlib.sha256("\x1f".join(identity).encode()).digest()
    return f"{prefix}_{intent_id.removeprefix('pi_')}_{base64.b32encode(digest)[:_PART_CHARACTERS].decode().lower()}"


def account_id(merchant: str) -> str:
    """The aggregate of a merchant's payouts and reserves: one owner decides all of them."""
    return derived_id("ma", merchant, "merchant_account", "")[: len("ma_") + _ACCOUNT_CHARACTERS]


def payout_id(account: str, *identity: str) -> str:
    """The id of a payout. It names its account, and is short enough for a bank's end-to-end id (35 characters)."""
    return _account_part("pt", account, identity)


def destination_id(account: str, *identity: str) -> str:
    """The id of a payout destination; it names its account, as a payout's does."""
    return _account_part("bd", account, identity)


def _account_part(prefix: str, account: str, identity: tuple[str, ...]) -> str:
    digest = hashlib.sha256("\x1f".join(identity).encode()).digest()
    return f"{prefix}_{account.removeprefix('ma_')}_{base64.b32encode(digest)[:_PAYOUT_CHARACTERS].decode().lower()}"


def account_of(part: str) -> str:
    """The account that the id of a payout or a destination names, for any text without an error."""
    return f"ma_{part.partition('_')[2].rpartition('_')[0]}"


def intent_of(part: str) -> str:
    """The payment that a part's id names: the reverse of ``part_id``, for any text without an error."""
    return f"pi_{part.partition('_')[2].rpartition('_')[0]}"


def operator_scope(principal: str, subject: str) -> str:
    """In whose name an operator's command is decided: retries are known by person, whatever a subject looks like."""
    return OPERATOR_SCOPE + derived_id("by", principal, "operator", subject)


def event_id(service_code: str, partition: int, seq: int) -> str:
    """The immutable identity of an event: its place in its service's stream."""
    return f"evt_{service_code}{partition:04x}{seq:012x}"


def is_card_token(text: str) -> bool:
    """Whether a payment method is a token of the card vault; whose it is, only the vault knows."""
    return _CARD_TOKEN.fullmatch(text) is not None

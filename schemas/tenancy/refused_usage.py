"""What is kept of a record of usage that does not count, so that people see it and it can be judged again. Pure.

Kept are the attributes that usage has, and the names of all others without what they say: nobody knows what strangers
wrote there. What is kept is judged as the record was. Where that cannot be promised (it is no JSON, too long, or holds
the number of a card) it is not ``whole``: it is looked at, and never counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from schemas import errors
from schemas.fields.card_number import holds_card_number
from schemas.tenancy import limits
from schemas.tenancy.attribute_names import OF_KAFKA, OF_USAGE
from schemas.tenancy.instants import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

_DATA: Final = ("dimension", "quantity")
_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile(r"\d")
_INTEGER_MAX: Final = 2**63 - 1  # that is written as JSON
_UNKEPT: Final = object()
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Kept(Struct, frozen=True):
    """``said``: the event without what may not be kept, as JSON; of what is not whole, what it looked like."""

    said: str
    fields: tuple[str, ...] = ()  # names of header fields that speak of attributes
    is_whole: bool = False


def kept(key: bytes, value: bytes, headers: Iterable[str] = ()) -> Kept:
    """What may be kept of a record. Never raises; an answer has ``USAGE_REFUSED_SAID_BYTES_MAX`` bytes at most."""
    fields = tuple(name for name in headers if name.startswith(OF_KAFKA))
    try:
        event = _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Kept(shape(value))
    if not isinstance(event, dict) or not _are_short(fields) or not _is_text(key):
        return Kept(shape(value))
    said = _without_strangers(event)
    if said is None or any(map(holds_card_number, (*event, *fields, key.decode(), *_texts(said)))):
        return Kept(shape(value))
    written = _encode(said).decode()
    if len(written.encode()) > limits.USAGE_REFUSED_SAID_BYTES_MAX:
        return Kept(shape(value))
    return Kept(written, fields, is_whole=True)


def shape(value: bytes) -> str:
    """How bytes look, and not what they say: each letter is an a, each digit a 9; so much as people can use."""
    text = value[: 4 * limits.USAGE_REFUSED_SHAPE_LENGTH].decode(errors="replace")[: limits.USAGE_REFUSED_SHAPE_LENGTH]
    seen = _DIGIT.sub("9", _LETTER.sub("a", text))
    return "".join(character if character.isprintable() else "\ufffd" for character in seen)


def _without_strangers(event: dict[str, Any]) -> dict[str, Any] | None:
    """The event, of whose strange attributes the names alone are left; None where it cannot be kept so."""
    said: dict[str, Any] = {name: _plain(value) if name in OF_USAGE else None for name, value in event.items()}
    data = event.get("data")
    if isinstance(data, dict):
        said["data"] = {name: _plain(value) if name in _DATA else None for name, value in data.items()}
    elif "data" in event:
        said["data"] = None  # as wrong as whatever else is no object
    values = [*said.values(), *(said.get("data") or {}).values()]
    return None if _UNKEPT in values else said


def _plain(value: object) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limits.USAGE_REFUSED_TEXT_LENGTH_MAX else _UNKEPT
    if isinstance(value, dict | list):
        return []  # no attribute may be either
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        return _UNKEPT
    return value


def _texts(said: dict[str, Any]) -> list[str]:
    """Where the number of a card may stand; an instant has as many digits, and is none."""
    data = said.get("data") or {}
    values = [*said.values(), *data, *data.values()]
    return [str(value) for value in values if isinstance(value, str | int | float) and parsed(value) is None]


def _are_short(fields: tuple[str, ...]) -> bool:
    return len(fields) <= limits.USAGE_REFUSED_FIELDS_MAX and all(
        name.isprintable() and len(name) <= limits.USAGE_TEXT_LENGTH_MAX for name in fields
    )


def _is_text(key: bytes) -> bool:
    """Whether a key can be kept as it is."""
    try:
        return len(key) <= limits.USAGE_TEXT_LENGTH_MAX and key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def raise_unless(word: str, decided: str) -> None:
    """What the database's word on a decision means, in sentences for people. Raises NotFound or StateConflict."""
    if word == decided:
        return
    if word == "not_found":
        raise errors.NotFound("No such refused usage is kept.")
    reasons = {
        "not_whole": "Too little of it is kept to judge it again: its program sends it anew, right this time.",
        "unsigned": "Nobody whom we know has signed it, so it never counts: its program sends it anew, with its key.",
    }
    raise errors.StateConflict(reasons.get(word) or f"It is {word.removeprefix('is_')} already.")

"""Validation of payloads as data: one row per field. Ingress, owner, Avro and OpenAPI read the same table.

``normalize`` returns the payload with its defaults, so that a retry that leaves a default out hashes alike,
or every error that it found; it never raises on any JSON value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from schemas import limits
from schemas.fields import card_number, currency, legible_text

Check = Callable[[Any], str | None]  # the reason why a value is refused, or None
Json = dict[str, Any]

_REQUIRED: Final = object()
A_CARD: Final = "(a card number)"  # what is shown instead of one
ORDINAL_MAX: Final = 2**31 - 1  # an Avro int


@dataclass(frozen=True, slots=True)
class ValueType:
    """A kind of value: why one is refused, its type in Avro, and what a JSON Schema can say of it."""

    check: Check
    avro: Any
    json: Json
    written: bool = False  # texts of a caller's own: looked at together with all others of their command


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload: its type, what it is, and its default when it may be left out.

    ``since``: the version of the command's schema in which it came. One that came later is null in older commands, and
    a request without it hashes as it did before. ``normal`` gives the one form of values that say the same. ``said``:
    why a caller may not say a value, where the type also takes another form, in which commands travel.
    """

    type: ValueType
    doc: str
    default: object = _REQUIRED
    nullable: bool = False
    since: int = 1
    normal: Callable[[Any], Any] | None = None
    said: Check | None = None

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is _REQUIRED


Fields = dict[str, Field]


def clean_text(value: object, length_max: int, length_min: int = 1) -> str | None:
    """Why a text is refused: its type, its length, or characters that no store of ours can hold."""
    if not isinstance(value, str):
        return "must be a string"
    if not length_min <= len(value) <= length_max:
        return f"must have {length_min} to {length_max} characters"
    if not value.isprintable() and any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in value):
        return "must not contain control characters"
    return None


def visible(text: str) -> str:
    """A stranger's text as the audit log can hold it: bounded, no card, nothing in it that a terminal would obey."""
    near = text[: limits.AUDIT_TEXT_LENGTH_MAX * 4]  # what begins where the text is cut off is looked at whole
    return "".join(c if c.isprintable() else "\ufffd" for c in without_card(near)[: limits.AUDIT_TEXT_LENGTH_MAX])


def without_card(text: str) -> str:
    """The text, or a word in its place when it holds a card number, be it escaped as in a URL."""
    return A_CARD if card_number.url_holds_card_number(text) else text


def free_text(value: object, length_max: int, length_min: int = 1) -> str | None:
    """As ``clean_text``, for what a caller writes and people read: it is legible, and a card number not repeated."""
    reason = sought_text(value, length_max, length_min)
    return reason or (legible_text.line_fault(value) if isinstance(value, str) else None)


def said_text(value: object, length_max: int) -> str | None:
    """As ``free_text``, for what a person must say: a reason, a name. Blanks say nothing."""
    if reason := free_text(value, length_max):
        return reason
    return None if legible_text.says_something(str(value)) else "must say something"


def sought_text(value: object, length_max: int, length_min: int = 1) -> str | None:
    """As ``free_text``, for what is looked for: an earlier release stored what is not legible, and it is found."""
    if reason := clean_text(value, length_max, length_min):
        return reason
    return card_number.REFUSED if isinstance(value, str) and card_number.holds_card_number(value) else None


def amount_minor(value: object) -> str | None:
    """An amount of money above zero, in minor units."""
    if type(value) is not int:  # a bool is an int in Python, and not an amount
        return "must be an integer of minor units"
    if not 1 <= value <= limits.AMOUNT_MINOR_MAX:
        return f"must be from 1 to {limits.AMOUNT_MINOR_MAX}"
    return None


def currency_code(value: object) -> str | None:
    """A currency that money can be held in."""
    if not isinstance(value, str) or not currency.is_currency(value):
        return "must be an upper-case ISO 4217 code of a currency with a minor unit"
    return None


def metadata(value: object, text: Callable[[object, int, int], str | None] = free_text) -> str | None:
    """A caller's own texts by name; ``text``: why one of them is refused, with its bounds."""
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > limits.METADATA_KEYS_MAX:
        return f"must have at most {limits.METADATA_KEYS_MAX} keys"
    if _says_nothing_refused(value):
        return None
    for key, said in value.items():
        if reason := text(key, limits.METADATA_KEY_LENGTH_MAX, 1):
            return f"a key {reason}"
        if reason := text(said, limits.METADATA_VALUE_LENGTH_MAX, 0):
            return f"the value of {key[:20]!r} {reason}"
    return f"taken together {card_number.REFUSED}" if card_number.is_split_over(value) else None


def _says_nothing_refused(texts: dict[Any, Any]) -> bool:
    """Whether these are short printable ASCII without the digits of a card in all of them together: most are."""
    for key, said in texts.items():
        if not (isinstance(key, str) and isinstance(said, str)):
            return False
        if not (1 <= len(key) <= limits.METADATA_KEY_LENGTH_MAX and len(said) <= limits.METADATA_VALUE_LENGTH_MAX):
            return False
    together = "".join(chain.from_iterable(texts.items()))
    return together.isascii() and together.isprintable() and not card_number.has_the_digits(together)


def callers_web_address(value: object) -> str | None:
    """As ``web_address``, for one that a caller gives: no card number, be it escaped."""
    if reason := web_address(value):
        return reason
    return card_number.REFUSED if isinstance(value, str) and card_number.url_holds_card_number(value) else None


def web_address(value: object) -> str | None:
    """Why a text is no address that a payer could be sent to. A processor's own may name its payment in digits."""
    if reason := clean_text(value, limits.REDIRECT_URL_LENGTH_MAX):
        return reason
    return None if isinstance(value, str) and value.startswith(("https://", "http://")) else "must be a web address"


def time_us(value: object) -> str | None:
    """A time in microseconds since the epoch."""
    in_range = type(value) is int and 0 <= value <= limits.TIME_US_MAX
    return None if in_range else "must be a time in microseconds since the epoch"


def is_person(subject: str) -> bool:
    """Whether a token's subject can stand for a person: a short text that every store can hold and others can read.

    Two that look the same would be two persons of four eyes, so nothing unseen may be in it.
    """
    is_held = clean_text(subject, limits.REPAIR_PERSON_LENGTH_MAX) is None
    is_legible = legible_text.line_fault(subject) is None and legible_text.says_something(subject)
    return is_held and is_legible and legible_text.is_told_apart(subject)


def boolean(value: object) -> str | None:
    """A JSON boolean."""
    return None if isinstance(value, bool) else "must be true or false"


def choice(*allowed: str) -> Check:
    """One of these texts."""
    reason = "must be one of " + ", ".join(allowed)
    return lambda value: None if isinstance(value, str) and value in allowed else reason


def whole(smallest: int, largest: int) -> Check:
    """An integer of a range."""
    reason = f"must be an integer from {smallest} to {largest}"
    return lambda value: None if type(value) is int and smallest <= value <= largest else reason


def text(value: object) -> str | None:
    """A line of text."""
    return clean_text(value, limits.TEXT_LENGTH_MAX)


def count(value: object) -> str | None:
    """An integer of 0 or more, as far as JSON carries it exactly."""
    return None if type(value) is int and 0 <= value <= limits.AMOUNT_MINOR_MAX else "must be an integer of 0 or more"


def ordinal(value: object) -> str | None:
    """The number of an attempt."""
    return None if type(value) is int and 0 <= value <= ORDINAL_MAX else "must be the number of an attempt"


def signed_minor(value: object) -> str | None:
    """An amount of money with its sign, in minor units."""
    return None if type(value) is int and abs(value) <= limits.AMOUNT_MINOR_MAX else "must be an integer of minor units"


def identity(value: object) -> str | None:
    """An id as we give them."""
    if reason := free_text(value, limits.AGGREGATE_KEY_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.isascii() and value.replace("_", "").isalnum()):
        return "must be an id as we gave it"
    return None


#: what says a tenant: nobody may, wherever it stands
TENANT_NAMES: Final = ("tenant", "tenant_id", "tenantid")
_OF_THE_TOKEN: Final = frozenset({"merchant", "merchant_id", *TENANT_NAMES, "scope"})


def names_its_caller(payload: dict[str, object], fields: Fields) -> str | None:
    """The first field that only a token may say (merchant, tenant), or None. Rule: identity comes only from claims.

    A policy's ``scope`` is no identity: it may be said where it is a field.
    """
    if payload.keys().isdisjoint(_OF_THE_TOKEN):
        return None
    own = {"scope"} & fields.keys()
    return next((name for name in payload if name in _OF_THE_TOKEN and name not in own), None)


def _sendable(name: object) -> str:
    """A caller's own field name as it can be told: short, no card, no lone surrogates, which no encoder takes."""
    if card_number.holds_card_number(str(name)):
        return A_CARD
    return str(name)[:40].encode(errors="replace").decode()


def normalize(fields: Fields, payload: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The payload with every field of the table, and the list of {field, reason} that forbids it (empty = valid)."""
    errors: list[dict[str, str]] = []
    result: dict[str, Any] = {}
    written: dict[str, str | dict[str, str]] = {}
    for name, spec in fields.items():
        value = payload.get(name, _REQUIRED)
        if value is _REQUIRED:
            if spec.default is _REQUIRED:
                errors.append({"field": f"payload.{name}", "reason": "is required"})
            result[name] = spec.default
        elif value is None and spec.nullable:
            result[name] = None
        elif reason := spec.type.check(value):
            errors.append({"field": f"payload.{name}", "reason": reason})
        else:
            result[name] = value if spec.normal is None else spec.normal(value)
            if value and spec.type.written:
                written[name] = value
    if len(payload) > len(fields) or not payload.keys() <= fields.keys():
        errors.extend(
            {"field": f"payload.{_sendable(name)}", "reason": "is not a field of this operation"}
            for name in payload
            if name not in fields
        )
    if len(written) > 1 and card_number.lies_in_pieces(written):
        errors.append({"field": "payload", "reason": f"taken together {card_number.REFUSED}"})
    return result, errors


def not_to_be_said(fields: Fields, payload: dict[str, Any]) -> list[dict[str, str]]:
    """What only a command on its way may have, of a payload that is valid as one."""
    return [
        {"field": f"payload.{name}", "reason": reason}
        for name, spec in fields.items()
        if spec.said is not None and (value := payload.get(name)) is not None and (reason := spec.said(value))
    ]


def hashed(fields: Fields, payload: dict[str, Any]) -> dict[str, Any]:
    """The part of a normal payload that its hash is of: all of it, but for later fields that say nothing."""
    if not any(field.since > 1 for field in fields.values()):
        return payload
    return {name: value for name, value in payload.items() if value is not None or fields[name].since == 1}

"""Usage as a CloudEvent 1.0 says it: what is taken, what is refused and why, and what makes two events one. Pure.

Identity is (tenant, source, id). Two events of one identity are the same one when dimension, quantity, time and subject
are; a time is an instant, whatever zone it is written in. If this were loose, a retry would be counted twice, or a
correction swallowed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from msgspec import Struct

from schemas import errors, limits
from schemas.fields.validation import TENANT_NAMES, clean_text
from schemas.tenancy import attribute_names
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.attribute_names import Wrong
from schemas.tenancy.dimension import FAULT, is_dimension
from schemas.tenancy.instants import fault, parsed

TYPE: Final = "millrace.usage"
#: sources of our own: nobody outside meters under them
OWN_SOURCES: Final = "urn:millrace:"
#: what we meter of a tenant ourselves: its committed writes of resources
RESOURCE_WRITES: Final = "resource_writes"
_SECOND_US: Final = 1_000_000
_JSON: Final = "application/json"
#: with parameters of RFC 2045, 5.1: any, but for a charset that is not the one of JSON
_WORD: Final = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_VALUE: Final = rf'(?:{_WORD}|"(?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*")'
_PARAMETER: Final = rf'[ \t]*;[ \t]*(?:charset="?utf-8"?|(?!charset=){_WORD}={_VALUE})'
_IS_JSON: Final = re.compile(rf"{_JSON}(?:{_PARAMETER})*[ \t]*", re.IGNORECASE)
#: RFC 3986: a scheme, and what stands in a URI behind it, roughly
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-\[\]_a-z~]+")
URI_PATTERN: Final = f"^{_URI.pattern}$"
#: whose values are judged elsewhere
_READ: Final = frozenset((*attribute_names.OF_USAGE, *attribute_names.MEMBERS, "dataschema"))
_INTEGERS: Final = 2**31
#: what an attribute that nobody reads may be, as JSON Schema
EXTENSION: Final[dict[str, Any]] = {
    "type": ["string", "boolean", "integer", "null"],
    "minimum": -_INTEGERS,
    "maximum": _INTEGERS - 1,
}
_KEY_HEX: Final = 32  # 128 bits of the digest


class UsageEvent(Struct, frozen=True, gc=False):
    """One event of usage, whoever's it is."""

    source: str
    event_id: str
    dimension: str
    quantity: int
    subject: str | None
    occurred_at: int  # microseconds since the epoch

    @property
    def content(self) -> tuple[str, int, str | None, int]:
        """What a second event of the same identity must say too."""
        return self.dimension, self.quantity, self.subject, self.occurred_at


def record_key(tenant_id: str, source: str, event_id: str) -> str:
    """The key of its record in Kafka: the tenant, and a digest of the identity. Equal identities share a partition."""
    digest = hashlib.sha256(f"{tenant_id}\x1f{source}\x1f{event_id}".encode()).hexdigest()
    return f"{tenant_id}:{digest[:_KEY_HEX]}"


def refuse_tenant(event: object) -> None:
    """Raises MalformedRequest for an event that names a tenant: only a token does."""
    said = event if isinstance(event, dict) else {}
    data = said.get("data")
    for name in TENANT_NAMES:
        if name in said or (isinstance(data, dict) and name in data):
            raise errors.MalformedRequest(f"An event must not say {name}: it comes only from the token.")


def read(event: object, now_us: int, slack_us: int = 0) -> UsageEvent | list[Wrong]:
    """The event, or what is wrong with it, each with its field. ``slack_us``: for what was judged before, elsewhere."""
    if not isinstance(event, dict):
        return [{"field": "", "reason": "must be an object"}]
    found, wrong = read_time(event.get("time"), now_us, slack_us)
    wrong += _wrong_attributes(event) + _wrong_data(event)
    if wrong:
        return wrong
    data = event["data"]
    return UsageEvent(event["source"], event["id"], data["dimension"], data["quantity"], event.get("subject"), found)


def read_all(events: list[object], now_us: int, *, is_batch: bool) -> list[UsageEvent]:
    """All of them, or none: raises EventTooOld when age alone is wrong, else InvalidCommand with every field."""
    taken: list[UsageEvent] = []
    wrong: list[Wrong] = []
    is_old_only = True
    for number, event in enumerate(events):
        found = read(event, now_us)
        if isinstance(event, dict) and (refused := _refused_at_the_door(event)):
            found = refused + (found if isinstance(found, list) else [])
        if isinstance(found, UsageEvent):
            taken.append(found)
            continue
        is_old_only = is_old_only and all(one["reason"] == _TOO_OLD for one in found)
        wrong += [{"field": _place(number, one["field"], is_batch=is_batch), "reason": one["reason"]} for one in found]
        if len(wrong) >= tenancy_limits.USAGE_ERRORS_MAX:
            break
    if wrong and is_old_only:
        raise errors.EventTooOld(wrong[: tenancy_limits.USAGE_ERRORS_MAX])
    if wrong:
        raise errors.InvalidCommand(wrong[: tenancy_limits.USAGE_ERRORS_MAX])
    return taken


def _refused_at_the_door(event: dict[str, Any]) -> list[Wrong]:
    """What is refused from now on: events with it that were taken before count all the same."""
    wrong = [{"field": "data_base64", "reason": "must not be said: data is JSON"}] if "data_base64" in event else []
    data = event.get("data")
    if isinstance(data, dict) and data.get("dimension") == RESOURCE_WRITES:
        wrong.append({"field": "data.dimension", "reason": "must be another one: this one is metered by the platform"})
    return wrong + attribute_names.of_event(event) + _wrong_values(event)


def _wrong_values(event: dict[str, Any]) -> list[Wrong]:
    """Of attributes that are not metered; null is one that is not said (CloudEvents 1.0, 3.1, and its JSON format)."""
    wrong = []
    for name, value in event.items():
        if name == "dataschema" and value is not None and not (isinstance(value, str) and _URI.fullmatch(value)):
            wrong.append({"field": name, "reason": "must be a URI"})
        elif name not in _READ and not _is_simple(value):
            reason = "must be a text, true or false, or an integer of 32 bits"
            wrong.append({"field": name[: limits.TEXT_LENGTH_MAX], "reason": reason})
    return wrong


def _is_simple(value: object) -> bool:
    if isinstance(value, int):  # true and false are, too
        return -_INTEGERS <= value < _INTEGERS
    return value is None or isinstance(value, str)


def _place(number: int, field: str, *, is_batch: bool) -> str:
    return ".".join(part for part in (f"[{number}]" if is_batch else "", field) if part)


_TOO_OLD: Final = f"is more than {tenancy_limits.USAGE_AGE_MAX_S // 86_400} days ago"


def read_time(text: object, now_us: int, slack_us: int) -> tuple[int, list[Wrong]]:
    """The instant of a text, and what is wrong with it; ``slack_us``: as ``read`` says."""
    at = parsed(text)
    reason = None
    if at is None:
        reason = fault(text, "must be an RFC 3339 time with its zone, such as 2026-01-02T03:04:05Z")
    elif at < now_us - slack_us - tenancy_limits.USAGE_AGE_MAX_S * _SECOND_US:
        reason = _TOO_OLD
    elif at > now_us + slack_us + tenancy_limits.USAGE_AHEAD_MAX_S * _SECOND_US:
        reason = f"is more than {tenancy_limits.USAGE_AHEAD_MAX_S} seconds ahead"
    return at or 0, [{"field": "time", "reason": reason}] if reason else []


def _wrong_attributes(event: dict[str, Any]) -> list[Wrong]:
    wrong = []
    if event.get("specversion") != "1.0":
        wrong.append({"field": "specversion", "reason": "must be 1.0"})
    if event.get("type") != TYPE:
        wrong.append({"field": "type", "reason": f"must be {TYPE}"})
    if not _is_json(event.get("datacontenttype")):
        wrong.append(
            {"field": "datacontenttype", "reason": f"must be {_JSON}, perhaps with parameters such as charset=utf-8"}
        )
    named = ("id", "source") if event.get("subject") is None else ("id", "source", "subject")
    checked = [(name, clean_text(event.get(name), tenancy_limits.USAGE_TEXT_LENGTH_MAX)) for name in named]
    wrong += [{"field": name, "reason": reason} for name, reason in checked if reason]
    if str(event.get("source")).lower().startswith(OWN_SOURCES):
        wrong.append({"field": "source", "reason": f"must not begin with {OWN_SOURCES}"})
    return wrong


def _is_json(said: object) -> bool:
    """Whether data of this media type is what its JSON says it is; unsaid, it is (CloudEvents JSON format, 3.1)."""
    return said is None or said == _JSON or (isinstance(said, str) and _IS_JSON.fullmatch(said) is not None)


def _wrong_data(event: dict[str, Any]) -> list[Wrong]:
    data = event.get("data")
    if not isinstance(data, dict):
        return [{"field": "data", "reason": "must be an object with dimension and quantity"}]
    wrong = []
    dimension, quantity = data.get("dimension"), data.get("quantity")
    if not is_dimension(dimension):
        wrong.append({"field": "data.dimension", "reason": FAULT})
    if not (type(quantity) is int and 0 <= quantity <= limits.AMOUNT_MINOR_MAX):
        wrong.append({"field": "data.quantity", "reason": f"must be an integer from 0 to {limits.AMOUNT_MINOR_MAX}"})
    if not data.keys() <= {"dimension", "quantity"}:
        wrong.append({"field": "data", "reason": "has a field that is not metered"})
    return wrong

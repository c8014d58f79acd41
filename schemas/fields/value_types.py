"""Value types of fields: the check, the Avro type and the OpenAPI schema of each.

The reason texts are those of ``schemas.fields.validation``; a service has types of its own in its folder.
"""

from __future__ import annotations

from typing import Any, Final

from schemas import limits
from schemas.fields import currency, validation
from schemas.fields.legible_text import LEGIBLE, SAYS_SOMETHING
from schemas.fields.validation import Check, Json, ValueType

#: any visible text: control characters are refused, everything else is the caller's own
VISIBLE: Final = r"^[^\u0000-\u001f\u007f]*$"
_ID_PATTERN: Final = rf"^[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}$"


def text_schema(length_max: int, length_min: int = 1, pattern: str = VISIBLE) -> Json:
    """A visible text in JSON Schema."""
    return {"type": "string", "minLength": length_min, "maxLength": length_max, "pattern": pattern}


def texts_schema(kinds_max: int, name_length_max: int, length_max: int, length_min: int) -> Json:
    """An object of texts that people read in JSON Schema."""
    return {
        "type": "object",
        "maxProperties": kinds_max,
        "propertyNames": {"minLength": 1, "maxLength": name_length_max, "pattern": LEGIBLE},
        "additionalProperties": text_schema(length_max, length_min, LEGIBLE),
    }


def choice(*allowed: str, avro: Any = "string") -> ValueType:
    """One of these texts."""
    return ValueType(validation.choice(*allowed), avro, {"enum": list(allowed)})


def whole(smallest: int, largest: int, check: Check | None = None, avro: Any = "long") -> ValueType:
    """An integer of a range."""
    json = {"type": "integer", "minimum": smallest, "maximum": largest}
    return ValueType(check or validation.whole(smallest, largest), avro, json)


def free_text(length_max: int) -> ValueType:
    """A line that a caller writes and people read: legible, and no card number is in it."""
    schema = text_schema(length_max, pattern=LEGIBLE)
    return ValueType(lambda value: validation.free_text(value, length_max), "string", schema, written=True)


def said_text(length_max: int) -> ValueType:
    """As ``free_text``, for what a person must say: something of it can be seen."""
    schema = text_schema(length_max, pattern=SAYS_SOMETHING)
    return ValueType(lambda value: validation.said_text(value, length_max), "string", schema, written=True)


AMOUNT: Final = whole(1, limits.AMOUNT_MINOR_MAX, validation.amount_minor)
COUNT: Final = whole(0, limits.AMOUNT_MINOR_MAX, validation.count)
SIGNED_AMOUNT: Final = whole(-limits.AMOUNT_MINOR_MAX, limits.AMOUNT_MINOR_MAX, validation.signed_minor)
TIME_US: Final = whole(0, limits.TIME_US_MAX, validation.time_us)
ORDINAL: Final = whole(0, validation.ORDINAL_MAX, validation.ordinal, "int")
CURRENCY: Final = ValueType(validation.currency_code, "string", {"enum": sorted(currency.EXPONENTS)})
BOOLEAN: Final = ValueType(validation.boolean, "boolean", {"type": "boolean"})
ID: Final = ValueType(validation.identity, "string", {"type": "string", "pattern": _ID_PATTERN})
TEXT: Final = ValueType(validation.text, "string", text_schema(limits.TEXT_LENGTH_MAX))
NOTE: Final = said_text(limits.TEXT_LENGTH_MAX)
_ADDRESS_SCHEMA: Final[Json] = {"type": "string", "format": "uri", "maxLength": limits.REDIRECT_URL_LENGTH_MAX}
WEB_ADDRESS: Final = ValueType(validation.web_address, "string", _ADDRESS_SCHEMA)
CALLERS_WEB_ADDRESS: Final = ValueType(validation.callers_web_address, "string", _ADDRESS_SCHEMA)
METADATA: Final = ValueType(
    validation.metadata,
    {"type": "map", "values": "string"},
    texts_schema(limits.METADATA_KEYS_MAX, limits.METADATA_KEY_LENGTH_MAX, limits.METADATA_VALUE_LENGTH_MAX, 0),
    written=True,
)
SIGNALS: Final = ValueType(
    validation.metadata, {"type": "map", "values": "string"}, {"type": "object", "additionalProperties": TEXT.json}
)

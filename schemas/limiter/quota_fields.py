"""What values the commands to durable quotas may have, and the aggregate that they are commands to.

One tenant is one aggregate: all levels of a request lie in one partition, and are charged by one commit or not at all.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from schemas.fields import value_types as types
from schemas.fields.validation import Field, Fields, ValueType, clean_text, identity
from schemas.identity import derived_id
from schemas.limiter import limits

DIGEST: Final = re.compile(r"[0-9a-f]{32}\Z")
_LIMIT_NAME: Final = re.compile(rf"([^/]+)(?:/[2-{1 + limits.LIMIT_FURTHER_LIMITS_MAX}])?")
_LEVEL_FIELDS: Final = frozenset(("policy_id", "version", "counted_by"))
_COUNTED_BY_LENGTH_MAX: Final = 4 * (limits.LIMIT_KEY_PART_LENGTH_MAX + 1)
_KEPT_WHOLE_BYTES_MAX: Final = 1_024  # an index of Postgres takes 2,704 for an entry, which has more than the values
SEPARATOR: Final = "\x1f"  # between the values that a counter is kept by


def quotas_of(tenant: str) -> str:
    """The aggregate of a tenant's durable quotas."""
    return derived_id("qt", tenant, "durable_quotas", "")


def scope_of(quotas: str) -> str:
    """Whose identities these are: no merchant's, however it is called."""
    return f"quota:{quotas}"


def kept_by(counted_by: str) -> str:
    """The values of a counter as its row has them: long ones by their digest, which begins as no values do."""
    values = counted_by.encode()
    return counted_by if len(values) <= _KEPT_WHOLE_BYTES_MAX else SEPARATOR + hashlib.sha256(values).hexdigest()


def _key_part(value: object) -> str | None:
    return clean_text(value, limits.LIMIT_KEY_PART_LENGTH_MAX)


def _digest(value: object) -> str | None:
    return None if isinstance(value, str) and DIGEST.match(value) else "must be 32 hexadecimal digits"


def limit_name(value: object) -> str | None:
    """Why a text names no limit: it is the id of a policy, or that and the place of a further limit in it."""
    found = _LIMIT_NAME.fullmatch(value) if isinstance(value, str) else None
    return identity(found[1]) if found else "must be an id as we gave it"


def _levels(value: object) -> str | None:
    if not isinstance(value, list) or not 1 <= len(value) <= limits.LIMIT_LEVELS_MAX:
        return f"must be a list of 1 to {limits.LIMIT_LEVELS_MAX} policies"
    return next((reason for level in value if (reason := _level(level))), None)


def _level(value: object) -> str | None:
    if not isinstance(value, dict) or value.keys() != _LEVEL_FIELDS:
        return "must have policy_id, version and counted_by"
    if reason := limit_name(value["policy_id"]):
        return f"policy_id {reason}"
    if type(value["version"]) is not int or value["version"] < 1:
        return "version must be an integer above 0"
    values = value["counted_by"]
    if not isinstance(values, str) or clean_text(values.replace(SEPARATOR, ""), _COUNTED_BY_LENGTH_MAX):
        return "counted_by must be values of the key"
    return None


_LEVEL_SCHEMA: Final = {
    "type": "record",
    "name": "QuotaLevel",
    "fields": [
        {"name": "policy_id", "type": "string", "doc": "a durable policy that governs the key"},
        {
            "name": "version",
            "type": "long",
            "doc": "that the gateway knows; the owner decides by the one in force",
        },
        {"name": "counted_by", "type": "string", "doc": "the values of the key that its counter is kept by"},
    ],
}
_KEY_PART: Final = ValueType(_key_part, "string", types.text_schema(limits.LIMIT_KEY_PART_LENGTH_MAX))
_DIGEST: Final = ValueType(_digest, "string", {"type": "string", "pattern": "^[0-9a-f]{32}$"})
_LEVELS: Final = ValueType(
    _levels,
    {"type": "array", "items": _LEVEL_SCHEMA},
    {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": limits.LIMIT_LEVELS_MAX},
)
CONSUME_QUOTA: Final[Fields] = {
    "tenant": Field(_KEY_PART, "of the limit key"),
    "user": Field(_KEY_PART, "of the limit key"),
    "route": Field(_KEY_PART, "of the limit key"),
    "cost": Field(types.whole(0, limits.LIMIT_COST_MAX), "tokens that the request takes"),
    "levels": Field(_LEVELS, "all of them must allow"),
}
REFUND_QUOTA: Final[Fields] = {
    "tenant": Field(_KEY_PART, "of the limit key"),
    "identity": Field(_DIGEST, "of the consumption: its idempotency key"),
}

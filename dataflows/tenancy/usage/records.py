"""Records of the topic of usage: who sent each, whose usage it is, and whether it counts. No I/O.

The sender's MAC covers key and value, and the key names the tenant: so no field of an event says whose it is. What the
ingress sends it has judged; what others send is judged here, at the broker's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataflows.tenancy.usage.counting import Metered
from schemas import errors
from schemas.senders import INGRESS
from schemas.tenancy import attribute_names, limits
from schemas.tenancy.usage_decoding import decoded
from schemas.tenancy.usage_event import UsageEvent, read, record_key, refuse_tenant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_decode: Final = msgspec.json.Decoder().decode
_decode_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_OF_TENANT: Final = "tenant:"
_VERSION_FIELD: Final = f"{attribute_names.OF_KAFKA}specversion"


def metered(
    key: bytes,
    value: bytes,
    appended_us: int,
    sender: str,
    scopes: Collection[str] | None,
    headers: Iterable[str] = (),
) -> Metered | str:
    """The usage that a record tells, or why it does not count. ``scopes``: of a producer outside; None = of ours.

    ``headers``: the names of the record's header fields.
    """
    tenant_id = key.decode(errors="replace").partition(":")[0]
    if scopes is None and sender != INGRESS:
        return "operation_not_allowed"
    if scopes is not None and f"{_OF_TENANT}{tenant_id}" not in scopes:
        return "scope_not_allowed"
    slack_us = 0 if scopes is not None else limits.USAGE_JUDGED_SLACK_S * 1_000_000
    try:
        event = _told(value, appended_us, slack_us, None if scopes is None else headers)
    except RecursionError:  # nested too deep for any parser; raised, it would end whoever meters, again and again
        return "not_an_event"
    if isinstance(event, str):
        return event
    if record_key(tenant_id, event.source, event.event_id).encode() != key:
        return "key_differs"
    return Metered(tenant_id, event)


def _told(value: bytes, appended_us: int, slack_us: int, headers: Iterable[str] | None) -> UsageEvent | str:
    """The event, or why it does not count; ``headers`` are None of what the ingress sends. Raises RecursionError."""
    event = decoded(value, appended_us, slack_us) or _looked_at(value, appended_us, slack_us)
    if headers is None:
        return event
    if isinstance(event, str):
        return "binary_mode" if _is_binary(value, headers) else event
    return "wrong_attribute_name" if _names_wrongly(value, headers) else event


def _names_wrongly(value: bytes, headers: Iterable[str]) -> bool:
    """Asked of producers outside alone: what the ingress has answered with 202 counts, whichever release took it."""
    names = attribute_names.of_event(_decode_names(value))
    return bool(names or attribute_names.of_fields(headers, attribute_names.OF_KAFKA))


def _is_binary(value: bytes, headers: Iterable[str]) -> bool:
    """Whether what is no event is the data of one whose attributes are header fields: those, no MAC covers."""
    return _VERSION_FIELD in headers and b'"specversion"' not in value


def _looked_at(value: bytes, appended_us: int, slack_us: int) -> UsageEvent | str:
    """What is not of the usual form, field by field."""
    try:
        said: Any = _decode(value)
        refuse_tenant(said)
    except (msgspec.DecodeError, UnicodeDecodeError, errors.MalformedRequest):
        return "not_an_event"
    event = read(said, appended_us, slack_us)
    if isinstance(event, UsageEvent):
        return event
    return f"wrong_{event[0]['field'].partition('.')[2] or event[0]['field'] or 'event'}"

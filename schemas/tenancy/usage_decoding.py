"""The usual form of an event of usage, decoded in one step: a quarter of the time of looking at each field in turn.

It knows what it takes, and never why it takes something not: that, ``usage_event.read`` says. Whatever is taken here,
``read`` takes too, as the same event (``tests/unit/tenancy/test_usage.py``).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct

from schemas import limits
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.dimension import is_dimension
from schemas.tenancy.usage_event import OWN_SOURCES, UsageEvent, read_time


class _Data(Struct, forbid_unknown_fields=True, gc=False):
    dimension: str
    quantity: Annotated[int, Meta(ge=0, le=limits.AMOUNT_MINOR_MAX)]


class _Said(Struct, gc=False):
    specversion: Literal["1.0"]
    type: Literal["millrace.usage"]
    id: str
    source: str
    time: str
    data: _Data
    subject: str | None = None
    datacontenttype: Literal["application/json"] | None = None
    tenant: Any = UNSET  # an event that names one is refused
    tenant_id: Any = UNSET
    tenantid: Any = UNSET


_decode: Final = msgspec.json.Decoder(_Said).decode
_LENGTH_MAX: Final = tenancy_limits.USAGE_TEXT_LENGTH_MAX
_OWN: Final = len(OWN_SOURCES)


def decoded(value: bytes, now_us: int, slack_us: int) -> UsageEvent | None:
    """The event, when it is of the usual form and right; else None: look at it closely."""
    try:
        said = _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    source, data, subject = said.source, said.data, said.subject
    names_tenant = not said.tenant is said.tenant_id is said.tenantid is UNSET
    if names_tenant or not (_is_clean(said.id) and _is_clean(source) and (subject is None or _is_clean(subject))):
        return None
    if source[:_OWN].lower() == OWN_SOURCES or not is_dimension(data.dimension):
        return None
    occurred_at, wrong = read_time(said.time, now_us, slack_us)
    if wrong:
        return None
    return UsageEvent(source, said.id, data.dimension, data.quantity, subject, occurred_at)


def _is_clean(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= _LENGTH_MAX

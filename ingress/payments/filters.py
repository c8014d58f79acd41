"""By what a list of payments, refunds, disputes or payouts may be filtered: read from the query, told in OpenAPI.

All of them go together, and a cursor is good for the filters that it came with only. What has an index leads to the
page (a payment, a reference, a metadata value, a time); state and amounts choose among what it passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import TIME
from ingress.http.requests import reading
from schemas import errors, limits
from schemas.fields import validation, value_types
from schemas.fields.column import declared
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msgspec import Struct
    from starlette.requests import Request

    from schemas.fields.column import Declared

Json = dict[str, Any]

METADATA: Final = "metadata"
STATE: Final = "state"
_OPERATORS: Final = {  # of a time, and of an amount
    "gte": ("at this time or later", "this amount or more"),
    "gt": ("after this time", "more than this amount"),
    "lte": ("at this time or before it", "this amount or less"),
    "lt": ("before this time", "less than this amount"),
}
_AMOUNT: Final = {"type": "integer", "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX}
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Span(NamedTuple):
    """From a number on, and below one."""

    start: int
    end: int


ANY_AMOUNT: Final = Span(0, limits.AMOUNT_MINOR_MAX + 1)
ALWAYS: Final = Span(0, 253_402_300_799_000_000)  # the end of the year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list is asked for; nothing of it: all that is the caller's."""

    leading: Mapping[str, str] = field(default_factory=dict)  # payment_intent or reference; a query of its own reads it
    state: str | None = None
    created: Span = ALWAYS
    amount: Span = ANY_AMOUNT
    metadata: Mapping[str, str] = field(default_factory=dict)

    def variant(self, of_merchant: str, of_intent: str | None, of_metadata: str | None) -> str:
        """The query that serves this: by what it has an index for."""
        for name in self.leading:
            return of_intent if name == "payment_intent" and of_intent is not None else f"{of_merchant}.{name}"
        return of_metadata if self.metadata and of_metadata is not None else of_merchant

    def parameters(self) -> dict[str, Any]:
        """What the query is given."""
        key, value = next(iter(self.metadata.items()), (None, None))
        return {
            **self.leading,
            STATE: self.state,
            "from_at": self.created.start,
            "from_id": "",
            "amount_from": self.amount.start,
            "amount_to": self.amount.end - 1,
            "key": key,
            "value": value,
            METADATA: _encode(dict(self.metadata)).decode() if self.metadata else None,
        }

    def bound(self, name: str) -> str:
        """What a cursor is bound to: the list, and by what it is filtered."""
        if self == EVERYTHING:
            return name
        said = (dict(self.leading), self.state, self.created, self.amount, dict(self.metadata))
        return f"{name}:{quote(_encode(said).decode(), safe='')}"


EVERYTHING: Final = Filters()


def asked(request: Request, record: type[Struct], *, of_intent: bool) -> Filters:
    """The filters of a query. Raises InvalidCommand for a value that nothing can have, and for a second index."""
    leading = _listed(request, record)
    if of_intent and (intent := reading.identity(request, "payment_intent")) is not None:
        leading["payment_intent"] = intent
    return Filters(
        leading=leading,
        state=reading.choice(request, STATE, _field(record, STATE).choices),
        created=_span(request, "created", reading.moment, ALWAYS),
        amount=_span(request, "amount", _amount, ANY_AMOUNT),
        metadata=_metadata(request) if _has_metadata(record) else {},
    )


def parameters(record: type[Struct], *, of_intent: bool) -> list[Json]:
    """The same as OpenAPI tells it."""
    query = elements.query
    of_payment = [query("payment_intent", shared.OBJECT_ID, "Only those of this payment")] if of_intent else []
    listed = [
        query(f.name, value_types.text_schema(_length_max(f)), f"Only those with this {f.name}")
        for f in declared(record)
        if f.column.listed
    ]
    state = query(STATE, {"enum": list(_field(record, STATE).choices)}, "Only those in this state")
    times = [
        query("created", TIME, "Only those made at this time"),
        *(query(f"created[{o}]", TIME, f"Only those made {of_time}") for o, (of_time, _) in _OPERATORS.items()),
    ]
    amounts = [
        query("amount", _AMOUNT, "Only those of this amount, in minor units"),
        *(
            query(f"amount[{o}]", _AMOUNT, f"Only those of {of_amount}, in minor units")
            for o, (_, of_amount) in _OPERATORS.items()
        ),
    ]
    return [*of_payment, *listed, state, *times, *amounts, *([_BY_METADATA] if _has_metadata(record) else [])]


_BY_METADATA: Final[Json] = {
    "name": METADATA,
    "in": "query",
    "required": False,
    "style": "deepObject",
    "explode": True,
    "description": "metadata[KEY]=VALUE: only those that have all of up to "
    f"{payments_limits.METADATA_FILTERS_MAX} values",
    "schema": {
        "type": "object",
        "maxProperties": payments_limits.METADATA_FILTERS_MAX,
        "additionalProperties": {"type": "string", "maxLength": limits.METADATA_VALUE_LENGTH_MAX},
    },
}


def _listed(request: Request, record: type[Struct]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in declared(record):
        value = reading.query(request, one.name) if one.column.listed else None
        if value is not None:
            if reason := validation.sought_text(value, _length_max(one)):
                raise errors.InvalidCommand([{"field": one.name, "reason": reason}])
            found[one.name] = value
    return found


def _span(request: Request, name: str, read: Callable[[Request, str], int | None], whole: Span) -> Span:
    """Of all that is said of it, what holds at once."""
    start, end = whole
    exact = read(request, name)
    if exact is not None:
        start, end = exact, exact + 1
    for operator in _OPERATORS:
        value = read(request, f"{name}[{operator}]")
        if value is None:
            continue
        if operator.startswith("g"):
            start = max(start, value + (operator == "gt"))
        else:
            end = min(end, value + (operator == "lte"))
    return Span(start, end)


def _amount(request: Request, name: str) -> int | None:
    text = reading.query(request, name)
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= len(str(limits.AMOUNT_MINOR_MAX)):
        amount = int(text)
        if amount <= limits.AMOUNT_MINOR_MAX:
            return amount
    reason = f"must be an amount in minor units, from 0 to {limits.AMOUNT_MINOR_MAX}"
    raise errors.InvalidCommand([{"field": name, "reason": reason}], f"The query value {name} {reason}.")


def _metadata(request: Request) -> dict[str, str]:
    names = sorted({n for n in request.query_params if n.startswith(f"{METADATA}[") and n.endswith("]")})
    found = {name[len(METADATA) + 1 : -1]: reading.query(request, name) or "" for name in names}
    reason = validation.metadata(found, validation.sought_text)
    if len(found) > payments_limits.METADATA_FILTERS_MAX:
        reason = f"has at most {payments_limits.METADATA_FILTERS_MAX} keys in a filter"
    if reason:
        raise errors.InvalidCommand([{"field": METADATA, "reason": reason}], f"The query value {METADATA} {reason}.")
    return found


def _has_metadata(record: type[Struct]) -> bool:
    return METADATA in record.__struct_fields__


def _field(record: type[Struct], name: str) -> Declared:
    return next(one for one in declared(record) if one.name == name)


def _length_max(one: Declared) -> int:
    return one.column.length_max or limits.TEXT_LENGTH_MAX

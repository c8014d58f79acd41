"""What a tenant has used: exact sums over windows of its calendar, and the events that contradicted others.

All of it is read from the events that count, never from sums that were kept: so it is exact, and a late event is in it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ingress.http.pages import NewestFirst
from schemas import errors
from schemas.calendar_windows import Calendar, time_zones, windows_from
from schemas.tenancy import limits
from schemas.tenancy.instants import instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store
    from ingress.tenancy.usage.questions import Questions

Window = Literal["none", "minute", "hour", "day", "month"]
WINDOWS: Final[tuple[Window, ...]] = ("none", "minute", "hour", "day", "month")
GROUPS: Final = ("subject", "source")
AGGREGATIONS: Final = ("sum", "count", "min", "max", "latest", "unique", "average", "percentile")
_SECOND_US: Final = 1_000_000
_MINUTE_US: Final = 60 * _SECOND_US
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Asked(NamedTuple):
    """One question about usage, every value of it allowed."""

    dimension: str
    from_us: int
    to_us: int
    window: Window
    group: str | None
    timezone: str
    aggregation: str = "sum"
    percent: int = 95


def wrong(name: str, reason: str) -> errors.InvalidCommand:
    """The refusal of a query value."""
    return errors.InvalidCommand([{"field": name, "reason": reason}], f"The query value {name} {reason}.")


def require_span(asked: Asked, now_us: int) -> None:
    """Raises InvalidCommand for a span that is told of nothing: empty, too long, not kept, or far ahead.

    What is ahead is bounded, as no calendar has windows behind the year 9999.
    """
    span_days, kept_days = limits.USAGE_SPAN_MAX_S // 86_400, limits.USAGE_KEPT_S // 86_400
    if not 0 < asked.to_us - asked.from_us <= limits.USAGE_SPAN_MAX_S * _SECOND_US:
        raise wrong("to", f"must be after from, and at most {span_days} days")
    if asked.from_us < now_us - limits.USAGE_KEPT_S * _SECOND_US:
        raise wrong("from", f"must be within the last {kept_days} days: older usage is not kept")
    if asked.to_us > now_us + limits.USAGE_SPAN_MAX_S * _SECOND_US:
        raise wrong("to", f"must be at most {span_days} days ahead")


def fraction_of(percent: int) -> float:
    """A percentile as Postgres is asked for it, for which a product of floats is rounded up to the number of the value.

    A hair less than it is: 0.07 of 100 values would be the eighth of them. Right up to a thousand million values.
    """
    return (percent - 1e-9) / 100


def average(value: Decimal) -> str:
    """An average as it is told: digits and a point. ``str`` would write the average of nothing but 0 as ``0E-20``."""
    return f"{value:f}"


def bounds(asked: Asked) -> list[int]:
    """Where windows begin and end within the span, in microseconds: the first and the last are cut to it.

    Raises InvalidCommand for more windows than are told at once.
    """
    if asked.window == "none":
        return [asked.from_us, asked.to_us]
    if asked.window == "minute":
        first = asked.from_us - asked.from_us % _MINUTE_US + _MINUTE_US
        _refuse_too_many((asked.to_us - asked.from_us) // _MINUTE_US)
        between = list(range(first, asked.to_us, _MINUTE_US))
    else:
        if asked.window == "hour":
            _refuse_too_many((asked.to_us - asked.from_us) // (60 * _MINUTE_US))
        found = windows_from(
            Calendar(asked.window, asked.timezone), asked.from_us // _SECOND_US, asked.to_us // _SECOND_US
        )
        between = [at * _SECOND_US for at in found.boundaries if asked.from_us < at * _SECOND_US < asked.to_us]
    return [asked.from_us, *between, asked.to_us]


def _refuse_too_many(windows: int) -> None:
    if windows > limits.USAGE_WINDOWS_MAX:
        reason = f"makes more than {limits.USAGE_WINDOWS_MAX} windows"
        raise errors.InvalidCommand([{"field": "window", "reason": reason}])


class Usage:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors, questions: Questions) -> None:
        self.store = store
        self._questions = questions
        self._cursors = cursors
        self._pages = NewestFirst(store, cursors)

    async def sums(self, tenant_id: str, asked: Asked) -> dict[str, Any]:
        """The usage by window and group, without empty ones.

        Raises InvalidCommand for more rows than are told, and Overloaded.
        """
        if asked.timezone not in time_zones():
            raise errors.InvalidCommand([{"field": "timezone", "reason": "must be an IANA name"}])
        edges = bounds(asked)
        now_us = time.time_ns() // 1_000
        parameters: dict[str, Any] = {
            "tenant": tenant_id,
            "dimension": asked.dimension,
            "group": asked.group,
            "bounds": [_moment(at) for at in edges],
            "from": _moment(asked.from_us),
            "to": _moment(asked.to_us),
            "limit": limits.USAGE_ROWS_MAX + 1,
        }
        query = "usage_sums" if asked.aggregation in ("sum", "count") else "usage_values"
        if query == "usage_values":
            parameters |= {"aggregation": asked.aggregation, "fraction": fraction_of(asked.percent)}
        async with self._questions.turn(tenant_id):
            rows = await self.store.rows(query, parameters)
        if len(rows) > limits.USAGE_ROWS_MAX:
            reason = f"makes more than {limits.USAGE_ROWS_MAX} rows: ask for a shorter span"
            raise errors.InvalidCommand([{"field": "to", "reason": reason}])
        spans = list(pairwise(edges))
        found = {"data": [_row(asked, spans, row) for row in rows], "as_of": instant(now_us)}
        if asked.aggregation != "sum":
            return found
        corrections = parameters | {"limit": limits.USAGE_CORRECTIONS_MAX}
        return found | _explained(found["data"], await self.store.rows("usage_corrections", corrections))

    async def dimensions(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of what the tenant metered, by name, each with when it was used last."""
        name = "usage_dimensions"
        after = self._cursors.read(tenant_id, name, cursor, str) if cursor else ""
        rows = await self.store.rows(name, {"tenant": tenant_id, "after": after, "limit": limit + 1})
        found, has_more = rows[:limit], len(rows) > limit
        return {
            "data": [{"dimension": dimension, "last_used_at": instant(at)} for dimension, at in found],
            "has_more": has_more,
            "next_cursor": self._cursors.write(tenant_id, name, found[-1][0]) if has_more else None,
        }

    async def conflicts(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of the events that contradicted others, newest first."""
        name = "usage_conflicts"
        return await self._pages.page(name, name, tenant_id, {}, limit, cursor, tuple, _place, _conflict)


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


def _row(asked: Asked, spans: list[tuple[int, int]], row: tuple[Any, ...]) -> dict[str, Any]:
    window, group, value, events = row
    begins, ends = spans[window]
    named = {} if asked.group is None else {asked.group: group}
    found = {"from": instant(begins), "to": instant(ends), **named, "events": events}
    if asked.aggregation in ("sum", "count"):
        found["quantity"] = int(value) if asked.aggregation == "sum" else events
    else:
        found["value"] = average(value) if asked.aggregation == "average" else int(value)
    return found


def _explained(data: Any, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What people corrected in the span, the newest, and of what its usage is the sum: events, and all corrections."""
    metered, corrected = sum(row["quantity"] for row in data), int(rows[0][-1]) if rows else 0
    counted = {"metered": metered, "corrected": corrected, "corrections": rows[0][-2] if rows else 0}
    return {"corrections": [_correction(row) for row in rows], "total": counted | {"quantity": metered + corrected}}


def _correction(row: Sequence[Any]) -> dict[str, Any]:
    entry_id, quantity, at, begins, ends, reason, made_by, created_at, *_ = row
    return {
        "entry_id": entry_id,
        "quantity": quantity,
        "at": instant(at),
        "from": None if begins is None else instant(begins),
        "to": None if ends is None else instant(ends),
        "reason": reason,
        "by": made_by,
        "created_at": instant(created_at),
    }


def _place(row: tuple[Any, ...]) -> Place:
    return row[6], row[7]


def _conflict(row: tuple[Any, ...]) -> dict[str, Any]:
    source, event_id, dimension, quantity, subject, occurred_at, seen_at, conflict_id = row
    return {
        "object": "usage_conflict",
        "conflict_id": conflict_id,
        "source": source,
        "event_id": event_id,
        "dimension": dimension,
        "quantity": quantity,
        "subject": subject,
        "time": instant(occurred_at),
        "seen_at": instant(seen_at),
    }

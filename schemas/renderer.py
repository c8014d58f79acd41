"""Renders a record as JSON from its declaration: one compiled expression, because every commit renders one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from schemas.fields.column import Declared, declared

_SECOND_US: Final = 1_000_000
_MINUTE_S: Final = 60
_DAY_S: Final = 86_400
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
_SECONDS: Final = [f"{n:02d}" for n in range(_MINUTE_S)]
_MINUTES: Final = [f"{n // 60:02d}:{n % 60:02d}" for n in range(_DAY_S // _MINUTE_S)]
_LAST: Final = ("metadata", "created_at", "updated_at")  # whatever came to the record after them


@lru_cache(maxsize=4_096)  # of eleven years: posts of one page are of as many seconds, and of fewer days
def _day(days: int) -> str:
    return date.fromordinal(_EPOCH_DAYS + days).isoformat()


def timestamp(time_us: int) -> str:
    """Microseconds since the epoch as RFC 3339, exactly: ``2026-01-02T03:04:05.000006Z``."""
    seconds = time_us // _SECOND_US
    minute = seconds // _MINUTE_S % len(_MINUTES)
    return f"{_day(seconds // _DAY_S)}T{_MINUTES[minute]}:{_SECONDS[seconds % _MINUTE_S]}.{time_us % _SECOND_US:06d}Z"


def timestamps(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """The times of a row as ``timestamp`` renders them; what is not yet stays null."""
    return {name: None if row[name] is None else timestamp(row[name]) for name in names}


def shown(record: type[Struct]) -> list[Declared]:
    """The fields that the API shows, in its order."""
    return sorted(
        (field for field in declared(record) if field.public is not None),
        key=lambda field: _LAST.index(field.name) if field.name in _LAST else -1,
    )


def renderer(
    record: type[Struct], name: str, forms: Mapping[str, Callable[[Any], Any]] | None = None
) -> Callable[[Any], dict[str, Any]]:
    """The public resource of a record. ``forms``: how a value looks that is not shown as it is; null stays null."""
    forms = forms or {}
    first, *rest = shown(record)
    members = [f"{first.public!r}: r.{first.name}", f"'object': {name!r}"]
    members += [f"{field.public!r}: {_value(field, forms)}" for field in rest]
    places = {"timestamp": timestamp, **{f"form_{of}": form for of, form in forms.items()}}
    rendered: Callable[[Any], dict[str, Any]] = eval(  # noqa: S307 - of our own records
        "lambda r: {" + ", ".join(members) + "}", places
    )
    return rendered


def _value(field: Declared, forms: Mapping[str, Callable[[Any], Any]]) -> str:
    value = f"r.{field.name}"
    form = f"form_{field.name}" if field.name in forms else "timestamp" if field.kind == "time" else ""
    if not form:
        return value
    return f"None if {value} is None else {form}({value})" if field.nullable else f"{form}({value})"

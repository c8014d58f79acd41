"""The column lists of SQL, from the records: ``{{read PaymentIntent i}}`` in a query becomes its columns, in order.

``read R a``       what the fields of R are read as, from alias a, in the record's order
``shown R a``      the same, without what no answer shows and may be null: it is read as null
``json R a``       the same as pairs of json_build_object
``names R s``      the columns that the statement s (insert, update, amend) writes
``arrays R s``     their parameters, for unnest; ``packed`` gives the values in the same order
``values R s``     what is inserted of t, the rows of that unnest
``sets R s``       what is updated from t, without the key
``compared R a``   what a replay compares of alias a
``excluded R``     what a replay overwrites on conflict
``listed R a``     the filter of a list, in the variant of the query that has it (``variants``)
``wanted R a``     whether a list that is filtered by state, amount or metadata shows alias a
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas import services
from schemas.fields.column import Declared, Kind, Statement, declared
from sinks.postgres.arrays import Bigints, Booleans, Column, Integers, OptionalTexts, Texts, Times

_MARK: Final = re.compile(r"\{\{(\w+) (\w+)(?: (\w+))?\}\}")
_LISTED: Final = re.compile(r"\{\{listed (\w+) (\w+)\}\}")
_ARRAYS: Final[dict[Kind, str]] = {
    "text": "text",
    "texts": "text",
    "integer": "int",
    "bigint": "bigint",
    "time": "timestamptz",
    "boolean": "boolean",
}
_encode: Final = msgspec.json.Encoder().encode


def expanded(text: str) -> str:
    """A query with its column lists. Raises KeyError for a mark that means nothing."""
    return _MARK.sub(lambda mark: _LISTS[mark[1]](_record(mark[2]), mark[3] or ""), text)


@cache
def _record(name: str) -> type[Struct]:
    found = [record for service in services.SERVICES for record in service.records if record.__name__ == name]
    if len(found) != 1:
        raise KeyError(f"{len(found)} services declare a record {name}")
    return found[0]


def variants(name: str, text: str) -> dict[str, str]:
    """A query by its name; and where it has a mark ``listed``, once more for each field that lists filter by.

    The name of such a one is ``name.field``, and the field is a parameter of it.
    """
    mark = _LISTED.search(text)
    if mark is None:
        return {name: expanded(text)}
    fields = [field for field in declared(_record(mark[1])) if field.column.listed]
    filtered = {f"{name}.{f.name}": f"and {mark[2]}.{f.name} = %({f.name})s" for f in fields}
    return {n: expanded(_LISTED.sub(condition, text)) for n, condition in {name: "", **filtered}.items()}


def packed(record: type[Struct], statement: Statement, rows: Sequence[Struct]) -> tuple[Column, ...]:
    """The rows as columns: one parameter for each of ``arrays``. At least one row."""
    values_of, packers = _packing(record, statement)
    columns = zip(*map(values_of, rows), strict=True)  # a row at a time, without a step of Python for each value
    return tuple(pack(column) for pack, column in zip(packers, columns, strict=True))


@cache
def _packing(
    record: type[Struct], statement: Statement
) -> tuple[Callable[[Any], Any], list[Callable[[Sequence[Any]], Column]]]:
    fields = _written(record, statement)
    return attrgetter(*(field.name for field in fields)), [_packer(field) for field in fields]


def _packer(field: Declared) -> Callable[[Sequence[Any]], Column]:
    if field.kind == "texts":
        return _optional_texts if field.nullable else _texts
    if field.kind == "text":
        return OptionalTexts if field.nullable else Texts
    if field.kind == "integer":
        return Integers
    if field.kind == "boolean":
        return Booleans
    if field.nullable:
        return _optional_bigints
    return Times if field.kind == "time" else Bigints


def _texts(values: Sequence[dict[str, str]]) -> Texts:
    return Texts([_encode(value).decode() if value else "{}" for value in values])


def _optional_texts(values: Sequence[dict[str, str] | None]) -> OptionalTexts:
    return OptionalTexts([None if value is None else _encode(value).decode() for value in values])


def _optional_bigints(values: Sequence[int | None]) -> Bigints:
    return Bigints([value or 0 for value in values])


def _written(record: type[Struct], statement: Statement) -> list[Declared]:
    return [field for field in declared(record) if field.is_written(statement)]


def _array(field: Declared) -> str:
    return "bigint" if field.kind == "time" and field.nullable else _ARRAYS[field.kind]


def _value(field: Declared) -> str:
    """A column of t as its table keeps it: null travels as the empty text, or as zero."""
    given = f"t.{field.name}"
    if not field.nullable:
        return given
    given = f"nullif({given}, {'0' if field.kind in ('time', 'bigint', 'integer') else chr(39) * 2})"
    return f"timestamptz 'epoch' + {given} * interval '1 microsecond'" if field.kind == "time" else given


def _read(field: Declared, alias: str) -> str:
    column = f"{alias}.{field.name}"
    return f"(extract(epoch from {column}) * 1000000)::bigint" if field.kind == "time" else column


def _as_json(field: Declared, alias: str) -> str:
    return _read(field, alias) + ("::json" if field.kind == "texts" else "")


def _compared(field: Declared, alias: str) -> str:
    return f"{alias}.{field.name}" + ("::jsonb::text" if field.kind == "texts" else "")


def _wanted(record: type[Struct], alias: str) -> str:
    names = {field.name for field in declared(record)}
    wanted = [
        f"(%(state)s::text is null or {alias}.state = %(state)s)",
        f"{alias}.amount between %(amount_from)s::bigint and %(amount_to)s::bigint",
    ]
    if "metadata" in names:
        wanted.append(f"(%(metadata)s::text is null or {alias}.metadata::jsonb @> %(metadata)s::jsonb)")
    return f"({' and '.join(wanted)})"


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts)


_LISTS: Final[dict[str, Callable[[type[Struct], Any], str]]] = {
    "read": lambda record, alias: _joined([_read(field, alias) for field in declared(record)]),
    "shown": lambda record, alias: _joined(
        ["null" if f.public is None and f.nullable else _read(f, alias) for f in declared(record)]
    ),
    "json": lambda record, alias: _joined([f"'{f.name}', {_as_json(f, alias)}" for f in declared(record)]),
    "names": lambda record, statement: _joined([field.name for field in _written(record, statement)]),
    "arrays": lambda record, statement: _joined([f"%s::{_array(f)}[]" for f in _written(record, statement)]),
    "values": lambda record, statement: _joined([_value(field) for field in _written(record, statement)]),
    "sets": lambda record, statement: _joined(
        [f"{f.name} = {_value(f)}" for f in _written(record, statement) if not f.column.key]
    ),
    "compared": lambda record, alias: _joined([_compared(field, alias) for field in declared(record)]),
    "wanted": _wanted,
    "excluded": lambda record, _: _joined(
        [f"{field.name} = excluded.{field.name}" for field in declared(record) if not field.column.key]
    ),
}

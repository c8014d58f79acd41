"""Declares each field of a record once: tables, events, analytics and the API are generated from it.

A field is ``Annotated[type, Column("what it is", ...)]``. Its Python type says what it is everywhere: ``str``, ``int``
(bigint; ``ordinal`` = integer), ``bool``, a choice, a map of texts; each may be null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct, structs

Statement = Literal["insert", "update", "amend"]
Kind = Literal["text", "integer", "bigint", "boolean", "time", "texts", "record", "records"]

MOVES: Final[tuple[Statement, ...]] = ("insert", "update")
AGREED: Final[tuple[Statement, ...]] = ("insert", "amend")  # hardly ever changes: a statement of its own writes it
ALWAYS: Final[tuple[Statement, ...]] = ("insert", "update", "amend")
LATER: Final[tuple[Statement, ...]] = ("update", "amend")  # no new record has it
UPDATED: Final[tuple[Statement, ...]] = ("update",)


@dataclass(frozen=True, slots=True)
class Column:
    """One field. ``since``: the version of the event's schema in which it came; older events do not have it."""

    doc: str
    ordinal: bool = False
    time: bool = False  # microseconds since the epoch
    key: bool = False  # finds the row: in every statement that writes it
    written: tuple[Statement, ...] = ("insert",)
    analytical: bool = False  # in ClickHouse. Rule: no personal data is, spec 1 section 5
    shown: str | None = ""  # its name in the API where it is another; None = stays inside
    listed: bool = False  # lists filter by it
    minimum: int | None = None
    length_max: int | None = None
    since: int = 1


class Declared(NamedTuple):
    """A field with what its type says."""

    name: str
    column: Column
    kind: Kind
    nullable: bool
    choices: tuple[str, ...]  # of a text that is one of some
    record: type[Struct] | None  # what is inside
    has_default: bool

    @property
    def public(self) -> str | None:
        """Its name in the API and in analytics; None where it stays inside."""
        return self.column.shown if self.column.shown is None else self.column.shown or self.name

    def is_written(self, statement: Statement) -> bool:
        """Whether a statement has it."""
        return self.column.key or statement in self.column.written


def declared(record: type[Struct]) -> tuple[Declared, ...]:
    """The fields of a record, in their order. Raises TypeError for one that says nothing of itself."""
    return _all_of(record)


@cache
def _all_of(record: Any) -> tuple[Declared, ...]:
    hints = get_type_hints(record, include_extras=True)
    defaults = {field.name for field in structs.fields(record) if not field.required}
    return tuple(_declared(name, hints[name], name in defaults) for name in record.__struct_fields__)


def _declared(name: str, hint: Any, has_default: bool) -> Declared:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{name} does not say what it is")
    type_, column = get_args(hint)
    parts = [part for part in get_args(type_) if part is not type(None)]
    nullable = type(None) in get_args(type_)
    kind, choices, record = _kind(parts[0] if nullable else type_, column)
    return Declared(name, column, kind, nullable, choices, record, has_default)


def _kind(type_: Any, column: Column) -> tuple[Kind, tuple[str, ...], type[Struct] | None]:
    if get_origin(type_) is Literal:
        return "text", get_args(type_), None
    if get_origin(type_) is list:
        return "records", (), get_args(type_)[0]
    if get_origin(type_) is dict:
        return "texts", (), None
    if isinstance(type_, type) and issubclass(type_, Struct):
        return "record", (), type_
    kinds: dict[Any, Kind] = {str: "text", bool: "boolean", int: "bigint"}
    if type_ is int and (column.time or column.ordinal):
        return "time" if column.time else "integer", (), None
    return kinds[type_], (), None

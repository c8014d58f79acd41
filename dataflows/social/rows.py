"""Rows of a batch in memory: read once, changed by any number of commands, written once, compared and set.

A row that another transaction changed meanwhile fails the batch, which is then decided anew over what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, structs

from dataflows.owner.batch import Statement
from sinks.postgres.arrays import Bigints, Booleans, Column, Count, OptionalTexts, Texts
from sinks.postgres.sql_files import queries

SQL: Final = (
    queries("dataflows.social", "owner.sql")
    | queries("dataflows.social", "media.sql")
    | queries("dataflows.social", "moderation.sql")
    | queries("dataflows.social", "own_data.sql")
)
Row = TypeVar("Row", bound=Struct)
Key = TypeVar("Key")
Packed = Callable[[Sequence[Any]], Column]


def optional_bigints(values: Sequence[int | None]) -> Column:
    """A column in which no number travels as -1."""
    return Bigints([-1 if value is None else value for value in values])


def lists(values: Sequence[Sequence[str]]) -> Column:
    """A column of lists of ids: ids have no comma."""
    return Texts([",".join(value) for value in values])


@dataclass(frozen=True, slots=True)
class RowsOf(Generic[Row, Key]):
    """What one table's rows are: their record, key, the columns that are written, and its two statements."""

    record: type[Row]
    key: Callable[[Row], Key]
    insert: str
    update: str
    columns: Mapping[str, Packed]
    changing: tuple[str, ...]  # the columns that an update has: the key, and what may change

    def read(self, rows: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Records of what a query gave."""
        names = self.record.__struct_fields__
        return [self.record(**dict(zip(names, row, strict=True))) for row in rows]

    def packed(self, rows: Sequence[Row], names: Iterable[str]) -> tuple[Column, ...]:
        """The columns of these rows."""
        return tuple(self.columns[name]([getattr(row, name) for row in rows]) for name in names)


class Held(Generic[Row, Key]):
    """The rows of one table that a batch holds. ``version`` of a record is what is compared."""

    def __init__(self, of: RowsOf[Row, Key], rows: Iterable[tuple[Any, ...]]) -> None:
        self._of = of
        self._known = {of.key(row): row for row in of.read(rows)}
        self._read = {key: _version(row) for key, row in self._known.items()}
        self._changed: set[Key] = set()

    def get(self, key: Key) -> Row | None:
        """The row as the commands before left it; None when there is none, or none was read."""
        return self._known.get(key)

    def put(self, row: Row) -> None:
        """What the row is from now on."""
        key = self._of.key(row)
        self._known[key] = row
        self._changed.add(key)

    def values(self) -> list[Row]:
        """All that is known."""
        return list(self._known.values())

    def writes(self) -> list[Statement]:
        """New rows, then changed ones that must still be as they were read."""
        in_order = sorted(self._changed, key=str)
        new = [self._known[key] for key in in_order if key not in self._read]
        old = [key for key in in_order if key in self._read]
        found: list[Statement] = []
        if new:
            found.append((SQL[self._of.insert], self._of.packed(new, self._of.columns)))
        if old:
            rows = [self._known[key] for key in old]
            read = Bigints([self._read[key] for key in old])
            found.append((SQL[self._of.update], (*self._of.packed(rows, self._of.changing), read, Count(len(old)))))
        return found


def _version(row: Struct) -> int:
    return int(structs.asdict(row)["version"])


TEXTS: Final = Texts
NULLABLE: Final = OptionalTexts
NUMBERS: Final = Bigints
FLAGS: Final = Booleans

"""Columns of a batch as single parameters. Measured: an array joined here costs half of a list adapted by the driver.

No value may hold a NUL character: Postgres text cannot, and validation refuses it at every door.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Self

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

SEPARATOR = "\x00"
EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01, from which Postgres counts


def text_array(values: Sequence[str]) -> str:
    """A text[] literal. Empty for no values; every value quoted."""
    if not values:
        return "{}"
    joined = SEPARATOR.join(values)
    if "\\" in joined:
        joined = joined.replace("\\", "\\\\")
    if '"' in joined:
        joined = joined.replace('"', '\\"')
    return '{"' + joined.replace(SEPARATOR, '","') + '"}'


def optional_text_array(values: Iterable[str | None]) -> str:
    """A text[] literal in which None travels as the empty string; the query turns it back with nullif."""
    return text_array([value or "" for value in values])


def int_array(values: Iterable[int]) -> str:
    """A bigint[] or integer[] literal."""
    return "{" + ",".join(map(str, values)) + "}"


def bool_array(values: Iterable[bool]) -> str:
    """A boolean[] literal."""
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


class Column:
    """One column of a set-based statement. Encoded when it is sent: until then several can be joined."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def joined(self, others: Sequence[Column]) -> Self:
        """One column with the values of all."""
        return type(self)([*self.values, *chain.from_iterable(other.values for other in others)])

    def encoded(self) -> bytes:
        """As Postgres takes it. Raises OverflowError for a number that does not fit."""
        raise NotImplementedError


class Texts(Column):
    """A text[]."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return text_array(self.values).encode()


class OptionalTexts(Column):
    """A text[] in which None travels as the empty string; the query turns it back with nullif."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return optional_text_array(self.values).encode()


class Booleans(Column):
    """A boolean[]."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return bool_array(self.values).encode()


class Numbers(Column):
    """A numeric[] of whole numbers of any size."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return int_array(self.values).encode()


class Bigints(Column):
    """A bigint[] in the binary format: half the time of text in Python, and half in Postgres."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return _binary(self.values, "q", _BIGINT_OID)


class Integers(Column):
    """An integer[] in the binary format."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return _binary(self.values, "i", _INTEGER_OID)


class Smallints(Integers):
    """Integers for a smallint column."""


class Times(Column):
    """A timestamptz[] in the binary format, of microseconds since 1970: the server has nothing to reckon."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        return _binary(self.counted(), "q", _TIMESTAMPTZ_OID)

    def counted(self) -> list[int]:
        """As Postgres counts them."""
        return [value - EPOCH_US for value in self.values]


class Blobs(Column):
    """A bytea[] in the binary format."""

    def encoded(self) -> bytes:  # noqa: D102 - as Column says
        if not self.values:
            return _NO_ELEMENTS.pack(0, 0, _BYTEA_OID)
        sizes = map(_SIZE.pack, map(len, self.values))
        head = _HEAD.pack(1, 0, _BYTEA_OID, len(self.values), 1)
        return b"".join((head, *chain.from_iterable(zip(sizes, self.values, strict=True))))


class Count(int):
    """How many rows a statement must have written; of joined statements, their sum."""


_BIGINT_OID: Final = 20
_INTEGER_OID: Final = 23
_BYTEA_OID: Final = 17
_TIMESTAMPTZ_OID: Final = 1184
_SIZE: Final = struct.Struct(">i")
_FEW: Final = 32  # values; below it a format of the struct module is faster than slices
_HEAD: Final = struct.Struct(">5i")  # dimensions, has nulls, type of the elements, length, lower bound
_NO_ELEMENTS: Final = struct.Struct(">3i")


def _binary(values: Sequence[int], code: str, oid: int) -> bytes:
    """The array as array_recv takes it: per element its size in four bytes, then its value. May raise OverflowError."""
    count = len(values)
    if count == 0:
        return _NO_ELEMENTS.pack(0, 0, oid)
    head = _HEAD.pack(1, 0, oid, count, 1)
    numbers = array(code, values)
    size = numbers.itemsize
    if count <= _FEW:
        return head + _layout(code, count).pack(*[part for value in values for part in (size, value)])
    elements = bytearray((_SIZE.pack(size) + bytes(size)) * count)
    lay_out(elements, _SIZE.size, _SIZE.size + size, numbers)
    return head + elements


def lay_out(rows: bytearray, begin: int, width: int, numbers: array[int]) -> None:
    """Writes one number into each row of so many bytes, from ``begin`` on, its greatest byte first."""
    if sys.byteorder == "little":
        numbers.byteswap()
    size, data = numbers.itemsize, numbers.tobytes()
    for place in range(size):
        rows[begin + place :: width] = data[place::size]


@lru_cache(maxsize=2 * _FEW)
def _layout(code: str, count: int) -> struct.Struct:
    return struct.Struct(">" + f"i{code}" * count)


#: kind of column -> its format on the wire, and the type that Postgres is told; 0 = the query's cast says it
_ARRAYS: Final = {
    Texts: (Format.TEXT, 0),
    OptionalTexts: (Format.TEXT, 0),
    Booleans: (Format.TEXT, 0),
    Numbers: (Format.TEXT, 0),
    Bigints: (Format.BINARY, 1016),
    Integers: (Format.BINARY, 1007),
    Smallints: (Format.BINARY, 1007),
    Times: (Format.BINARY, 1185),
    Blobs: (Format.BINARY, 1001),
}


class _ColumnDumper(Dumper):
    def dump(self, obj: Column) -> bytes:
        return obj.encoded()


_DUMPERS: Final = {
    kind: type(f"_{kind.__name__}Dumper", (_ColumnDumper,), {"format": format_, "oid": oid})
    for kind, (format_, oid) in _ARRAYS.items()
}


def register(context: AdaptContext) -> None:
    """Lets a connection take columns as parameters."""
    for kind, dumper in _DUMPERS.items():
        context.adapters.register_dumper(kind, dumper)

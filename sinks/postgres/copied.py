"""Many rows of a set-based insert go to Postgres by COPY: the same rows, with a third fewer bytes of WAL for each.

COPY writes a page of rows as one record, an insert a record for each row. It costs a round trip of its own, so few rows
stay an insert. An insert takes part once its text is ``copied``; it must be of the one form that can be read here.
Columns of a fixed size come first in each row, so that those of all rows are laid out in one piece, without a step of
Python for each value.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final

from msgspec import Struct

from sinks import limits
from sinks.postgres.arrays import (
    SEPARATOR,
    Bigints,
    Blobs,
    Booleans,
    Column,
    Integers,
    OptionalTexts,
    Smallints,
    Times,
    lay_out,
)

_INSERT: Final = re.compile(
    r"insert into (?P<table>\w+) \((?P<columns>[^()]+)\)\s+select (?P<values>.+?)\s+"
    r"from unnest\((?P<arrays>[^()]+)\)\s+as t \((?P<names>[^()]+)\)\Z",
    re.DOTALL,
)
_VALUE: Final = re.compile(r"""(?P<constant>%s)|t\.(?P<given>"?\w+"?)|nullif\(t\.(?P<nullable>"?\w+"?), ''\)""")
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)  # no flags, no extension
_END: Final = struct.pack(">h", -1)
_ROW: Final = struct.Struct(">h")
_SIZE: Final = struct.Struct(">i")
_OF_ANY_SIZE: Final = ("%s::text[]", "%s::bytea[]")
#: how an array of Python holds the values of a column whose values have one size
_CODES: Final[dict[type[Column], str]] = {Smallints: "h", Integers: "i", Bigints: "q", Times: "q", Booleans: "b"}
#: sizes as COPY takes them; of larger values they are packed one by one
_SIZES: Final = [_SIZE.pack(size) for size in range(limits.COPY_SIZES_PACKED)]
_SIZES_OR_NULL: Final = [_SIZE.pack(-1), *_SIZES[1:]]  # where the empty text is null
_targets: Final[dict[str, _Target]] = {}  # by the text of the insert
Statement = tuple[str, Any]  # SQL with the placeholders of psycopg, and its parameters


class Copy(Struct, frozen=True):
    """A COPY statement and what it reads."""

    statement: str
    data: bytes


class _Target(Struct, frozen=True):
    statement: str
    constants: list[int]  # the numbers of parameters: of columns that are the same in every row,
    fixed: list[int]  # of columns whose values have one size,
    others: list[tuple[int, bool]]  # and of texts and bytes, with whether the empty text is null


def copied(text: str) -> str:
    """The same insert, which goes by COPY from now on when its rows are many. Raises ValueError for another form."""
    if text not in _targets:
        _targets[text] = _target(text)
    return text


def copy_of(text: str, parameters: Any) -> Copy | None:
    """The COPY that does what this statement would do; None for one that stays as it is.

    Raises OverflowError for a number that does not fit, ValueError for a text with a NUL character.
    """
    target = _targets.get(text)
    if target is None:
        return None
    rows = max(len(given.values) for given in parameters if isinstance(given, Column))
    if rows < limits.COPY_ROWS_MIN:
        return None
    parts: list[Iterable[bytes]] = [_fixed(target, parameters, rows)]
    for n, is_nullable in target.others:
        parts += _parts(parameters[n], rows, _SIZES_OR_NULL if is_nullable else _SIZES)
    # Every column has all rows; what is the same in all is repeated for ever.
    lines = map(b"".join, zip(*parts, strict=False))
    return Copy(target.statement, b"".join((_SIGNATURE, *lines, _END)))


def by_copy(statements: Sequence[Statement]) -> list[Statement | Copy]:
    """These statements, in their order; as COPY those that go by it. Raises as ``copy_of``."""
    return [copy_of(text, parameters) or (text, parameters) for text, parameters in statements]


def _target(text: str) -> _Target:
    found = _INSERT.match(text)
    if found is None:
        raise ValueError(f"not an insert that can be copied: {text[:80]}")
    names = [name.strip() for name in found["names"].split(",")]
    casts = [cast.strip() for cast in found["arrays"].split(",")]
    values = re.split(r", (?![^(]*\))", " ".join(found["values"].split()))
    columns = [column.strip() for column in found["columns"].split(",")]
    first_array = values.count("%s")
    constants: list[tuple[str, int]] = []
    fixed: list[tuple[str, int]] = []
    others: list[tuple[str, tuple[int, bool]]] = []
    for column, value in zip(columns, values, strict=True):
        read = _VALUE.fullmatch(value)
        if read is None:
            raise ValueError(f"not a value that can be copied: {value}")
        if read["constant"]:
            constants.append((column, len(constants)))
            continue
        place = names.index(read["given"] or read["nullable"])
        if casts[place] in _OF_ANY_SIZE:
            others.append((column, (first_array + place, read["nullable"] is not None)))
        else:
            fixed.append((column, first_array + place))
    in_order = ", ".join([*(c for c, _ in constants), *(c for c, _ in fixed), *(c for c, _ in others)])
    return _Target(
        statement=f"copy {found['table']} ({in_order}) from stdin (format binary)",
        constants=[place for _, place in constants],
        fixed=[place for _, place in fixed],
        others=[place for _, place in others],
    )


def _fixed(target: _Target, parameters: Any, rows: int) -> list[bytes]:
    """How each row begins: the number of its columns, and those that have one size."""
    texts = [parameters[n].encode() for n in target.constants]
    columns = [_numbers(parameters[n]) for n in target.fixed]
    row = bytearray(_ROW.pack(len(texts) + len(columns) + len(target.others)))
    row += b"".join(_SIZE.pack(len(text)) + text for text in texts)
    begins = []
    for numbers in columns:
        row += _SIZE.pack(numbers.itemsize)
        begins.append(len(row))
        row += bytes(numbers.itemsize)
    width = len(row)
    lines = row * rows
    for begin, numbers in zip(begins, columns, strict=True):
        lay_out(lines, begin, width, numbers)
    whole = bytes(lines)
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def _numbers(given: Column) -> array[int]:
    return array(_CODES[type(given)], given.counted() if isinstance(given, Times) else given.values)


def _parts(given: Any, rows: int, sizes: list[bytes]) -> Sequence[Iterable[bytes]]:
    """A column of texts or bytes as COPY takes it: of each row its size and its value."""
    values = given.values if isinstance(given, Blobs) else _encoded(given)
    first = values[0]
    if first == values[-1] and values.count(first) == rows:
        return (repeat(_size(len(first), sizes) + first),)
    try:
        return (list(map(sizes.__getitem__, map(len, values))), values)
    except IndexError:  # a large one
        return ([_size(len(value), sizes) for value in values], values)


def _size(size: int, sizes: list[bytes]) -> bytes:
    return sizes[size] if size < len(sizes) else _SIZE.pack(size)


def _encoded(given: Column) -> list[bytes]:
    texts = [text or "" for text in given.values] if isinstance(given, OptionalTexts) else given.values
    encoded = SEPARATOR.join(texts).encode().split(SEPARATOR.encode())
    if len(encoded) != len(texts):
        raise ValueError("a text holds a NUL character")
    return encoded

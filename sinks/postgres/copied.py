"""Many rows of a set-based insert go to Postgres by COPY: the same rows, with a third fewer bytes of WAL for each.

COPY writes a page of rows as one record, an insert a record for each row. It costs a round trip of its own, so few rows
stay an insert. An insert takes part once its text is ``copied``; it must be of the one form that can be read here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Final

from msgspec import Struct

from sinks import limits
from sinks.postgres.arrays import (
    EPOCH_US,
    Bigints,
    Blobs,
    Booleans,
    Column,
    Integers,
    OptionalTexts,
    Smallints,
    Texts,
    Times,
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
_NUMBERS: Final[dict[type[Column], struct.Struct]] = {
    Smallints: struct.Struct(">ih"),
    Integers: struct.Struct(">ii"),
    Bigints: struct.Struct(">iq"),
    Times: struct.Struct(">iq"),
    Booleans: struct.Struct(">i?"),
}
_targets: Final[dict[str, _Target]] = {}  # by the text of the insert


class Copy(Struct, frozen=True):
    """A COPY statement and what it reads."""

    statement: str
    data: bytes


class _Target(Struct, frozen=True):
    statement: str
    values: list[tuple[int, bool]]  # of each column: the number of its parameter, and whether the empty text is null


def copied(text: str) -> str:
    """The same insert, which goes by COPY from now on when its rows are many. Raises ValueError for another form."""
    if text not in _targets:
        _targets[text] = _target(text)
    return text


def copy_of(text: str, parameters: Any) -> Copy | None:
    """The COPY that does what this statement would do; None for one that stays as it is."""
    target = _targets.get(text)
    if target is None:
        return None
    rows = max(len(given.values) for given in parameters if isinstance(given, Column))
    if rows < limits.COPY_ROWS_MIN:
        return None
    parts = [part for n, is_nullable in target.values for part in _fields(parameters[n], is_nullable)]
    head = _ROW.pack(len(target.values))
    # Every column has all rows; what is the same in all is repeated for ever.
    lines = zip(repeat(head, rows), *parts, strict=False)
    return Copy(target.statement, b"".join((_SIGNATURE, *chain.from_iterable(lines), _END)))


def _target(text: str) -> _Target:
    found = _INSERT.match(text)
    if found is None:
        raise ValueError(f"not an insert that can be copied: {text[:80]}")
    names = [name.strip() for name in found["names"].split(",")]
    values = re.split(r", (?![^(]*\))", " ".join(found["values"].split()))
    first_array = values.count("%s")
    sources, constants = [], 0
    for value in values:
        read = _VALUE.fullmatch(value)
        if read is None:
            raise ValueError(f"not a value that can be copied: {value}")
        if read["constant"]:
            sources.append((constants, False))
            constants += 1
        else:
            name = read["given"] or read["nullable"]
            sources.append((first_array + names.index(name), read["nullable"] is not None))
    columns = ", ".join(column.strip() for column in found["columns"].split(","))
    return _Target(f"copy {found['table']} ({columns}) from stdin (format binary)", sources)


def _fields(given: Any, is_nullable: bool) -> Sequence[Iterable[bytes]]:
    """A parameter as COPY takes it: of each row its size and its value. Raises struct.error for too large a number."""
    if isinstance(given, str):
        value = given.encode()
        return (repeat(_SIZE.pack(len(value)) + value),)
    if isinstance(given, Texts | OptionalTexts):
        values = [(text or "").encode() for text in given.values]
        return (map(_SIZE.pack, [len(v) or -1 for v in values] if is_nullable else map(len, values)), values)
    if isinstance(given, Blobs):
        return (map(_SIZE.pack, map(len, given.values)), given.values)
    layout = _NUMBERS[type(given)]
    numbers = [value - EPOCH_US for value in given.values] if isinstance(given, Times) else given.values
    return (map(layout.pack, repeat(layout.size - _SIZE.size), numbers),)

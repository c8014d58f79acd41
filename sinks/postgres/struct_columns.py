"""Columns of a batch, packed as the types of a record's fields say: text, bigint, boolean; maps and lists as JSON.

Null travels as the empty text or as zero, and the statement turns it back with nullif.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Struct

from sinks.postgres.arrays import Bigints, Booleans, Column, OptionalTexts, Texts

Packer = Callable[[Sequence[Any]], Column]
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_NOTHING: Final[Mapping[str, Packer]] = {}


def columns(
    rows: Sequence[Struct], names: Sequence[str] = (), packers: Mapping[str, Packer] = _NOTHING
) -> tuple[Column, ...]:
    """A parameter for each of ``names`` (default: all fields, in order), over at least one row.

    ``packers`` has those of fields that travel otherwise than their type says.
    """
    of_types = _packers(type(rows[0]))
    return tuple(
        (packers.get(name) or of_types[name])([getattr(row, name) for row in rows]) for name in names or of_types
    )


def documents(values: Sequence[Any]) -> Texts:
    """Each value as JSON, with sorted keys."""
    return Texts([_encode(value).decode() for value in values])


def optional_bigints(values: Sequence[int | None]) -> Bigints:
    """None travels as zero."""
    return Bigints([value or 0 for value in values])


@cache
def _packers(record: type[Struct]) -> dict[str, Packer]:
    hints = get_type_hints(record)
    return {name: _packer(hints[name]) for name in record.__struct_fields__}


def _packer(hint: Any) -> Packer:
    nullable = type(None) in get_args(hint)
    types = [part for part in get_args(hint) if part is not type(None)] if nullable else [hint]
    if types == [bool]:
        return Booleans
    if types == [int]:
        return optional_bigints if nullable else Bigints
    if types == [str] or all(isinstance(choice, str) for choice in get_args(types[0]) or [None]):
        return OptionalTexts if nullable else Texts
    return documents

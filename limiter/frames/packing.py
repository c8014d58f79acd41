"""What a client does to many entries of a frame at once: entries packed, rows of an answer read.

Twice: in Python, and compiled from ``_packing.c`` where a C compiler was there at set-up. Both give the same bytes: one
suite of tests runs on both.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from limiter.frames.frames import ALLOWED, COST_MAX, ENTRY, IDENTITY_BYTES, ROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.frames.frames import Named


def plain_entries(numbers: dict[Named, int], checks: Sequence[tuple[Any, ...]], made: bytes, new: list[Named]) -> bytes:
    """The entries of a frame that asks; ``made`` has an identity for each that has none.

    What has no number gets the next, and is added to ``new``. Raises ValueError, TypeError for what no entry can say.
    """
    body = bytearray(len(checks) * ENTRY.size)
    for at, (tenant, user, route, cost, identity, network) in enumerate(checks):
        place: Named = (tenant, user, route) if network is None else (tenant, user, route, network)
        number = numbers.get(place)
        if number is None:
            number = numbers[place] = len(numbers)
            new.append(place)
        own = made[at * IDENTITY_BYTES : (at + 1) * IDENTITY_BYTES] if identity is None else identity
        if not isinstance(own, bytes) or len(own) != IDENTITY_BYTES or not 0 <= index(cost) <= COST_MAX:
            raise ValueError("out of range")
        ENTRY.pack_into(body, at * ENTRY.size, number, cost, own)
    return bytes(body)


def plain_answers(kind: type, rows: bytes) -> list[Any]:
    """The rows of an answer, each as this kind of tuple: ``limiter.frames.frames.Answer``."""
    make = tuple.__new__
    return [
        make(kind, (bool(flags & ALLOWED), remaining, reset_ms, retry_ms, version, flags))
        for flags, version, remaining, reset_ms, retry_ms in ROW.iter_unpack(rows)
    ]


if TYPE_CHECKING:  # the compiled ones are called alike
    entries = plain_entries
    answers = plain_answers
    IS_COMPILED: bool
else:
    try:
        from limiter.frames._packing import answers, entries

        IS_COMPILED = True
    except ImportError:
        entries, answers = plain_entries, plain_answers
        IS_COMPILED = False

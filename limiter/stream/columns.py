"""What is done to many records of a ring at once: taken apart, counted, joined.

Twice: in Python, and compiled from ``_columns.c`` where a C compiler was there at set-up. Both give the same bytes: one
suite of tests runs on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from limiter.spending.ring import ALLOWED, ALSO, IDENTIFIED, RECORD_TYPE, SLOT_SHIFT

if TYPE_CHECKING:
    import numpy.typing as npt

    Buffer = Any  # bytes, or a column of them
    _Numbers = npt.NDArray[np.uint32]

KINDS: Final = 32  # of decisions: their lowest flags, as far as ALSO
_CHARGE_WORDS: Final = 4
_COST_SHIFT: Final = np.uint64(32)  # lease and cost of a charge as one number
_FIXED, _FIXED_MAX, _16, _16_MAX, _32 = 0x90, 0x0F, b"\xdc", 0xFFFF, b"\xdd"  # how msgpack begins a list


class PlainNumbering:
    """Takes records apart by where they go; in each part the different rows, or slots, are numbered as they come."""

    def split(self, records: Buffer, homes: Buffer, count: int, mask: int) -> list[tuple[bytes, bytes, bytes]]:
        """Decisions by the home of their row (uint8 of each row): places, records with numbered rows, and these rows.

        Of the flags of a record those of ``mask`` stay. Raises ValueError when a row has none of ``count`` homes.
        """
        found = np.frombuffer(records, RECORD_TYPE)
        decisions = np.flatnonzero(found["flags"] & ALSO == 0)
        where = _looked_up(np.frombuffer(homes, np.uint8), found["row"][decisions])
        if (where >= count).any():
            raise ValueError("a record has no row")
        parts = []
        for home in range(count):
            places = decisions[where == home].astype(np.uint32)
            part = found[places]
            different, part["row"] = _numbered(part["row"])
            part["flags"] &= np.uint32(mask)
            parts.append((places.tobytes(), part.tobytes(), different.tobytes()))
        return parts

    def charged(
        self, records: Buffer, identities: Buffer, keys: Buffer, homes: Buffer, count: int
    ) -> tuple[list[tuple[bytes, bytes]], int]:
        """What leases were charged for, by the home of their slot (int8): charges with numbered leases, their slots.

        ``identities``: a hash of each record; ``keys``: of each row. And how many are of no lease (home -1).
        """
        found = np.frombuffer(records, RECORD_TYPE)
        places = np.flatnonzero(found["flags"] & IDENTIFIED)
        found = found[places]
        slots = (found["flags"] >> SLOT_SHIFT).astype(np.uint32)
        charges = np.empty((len(found), _CHARGE_WORDS), np.uint64)  # rows of limiter.stream.charges.CHARGE_TYPE
        charges[:, 0], charges[:, 1] = np.frombuffer(identities, np.uint64)[places], found["at"]
        charges[:, 2] = _looked_up(np.frombuffer(keys, np.uint64), found["row"])
        charges[found["flags"] & ALSO != 0, 2] = 0
        charges[:, 3] = found["cost"].astype(np.uint64) << _COST_SHIFT
        where = _looked_up(np.frombuffer(homes, np.int8), slots)
        if (where >= count).any():
            raise ValueError("a charge has no lease")
        parts = []
        for home in range(count):
            mine = np.flatnonzero(where == home)
            different, numbers = _numbered(slots[mine])
            part = charges[mine]
            part[:, 3] |= numbers
            parts.append((part.tobytes(), different.tobytes()))
        return parts, int(np.count_nonzero(where < 0))


def _looked_up(values: npt.NDArray[Any], numbers: _Numbers) -> npt.NDArray[Any]:
    """Raises ValueError for a number that has no value."""
    if len(numbers) and int(numbers.max()) >= len(values):
        raise ValueError("a record names what there is not")
    return values[numbers]


def _numbered(values: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The different ones in the order in which they come, and the place of each among them."""
    different, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return different[order], rank[places]


def plain_tally(records: Buffer) -> bytes:
    """Of each kind of decision (flags as far as ALSO) how many there are; then what they cost (uint64)."""
    found = np.frombuffer(records, RECORD_TYPE)
    kinds = (found["flags"] % KINDS).astype(np.intp)
    tallied = np.zeros((2, KINDS), np.uint64)
    np.add.at(tallied[0], kinds, np.uint64(1))
    np.add.at(tallied[1], kinds, found["cost"].astype(np.uint64))
    return tallied.tobytes()


def plain_count_leases(records: Buffer, counters: Buffer, due_at: Buffer, stale: Buffer) -> set[int]:
    """Adds records to the columns cost, allowed, denied (int64) of their slots, and marks them in both ``stale`` rows.

    Gives the slots whose cost is now at least ``due_at``. Raises ValueError for a slot that there is not.
    """
    found = np.frombuffer(records, RECORD_TYPE)
    slots = (found["flags"] >> SLOT_SHIFT).astype(np.intp)
    found, slots = found[slots != 0], slots[slots != 0]
    due = np.frombuffer(due_at, np.int64)
    columns = np.frombuffer(counters, np.int64).reshape(3, len(due))
    allowed = found["flags"] & ALLOWED != 0
    if slots.max(initial=0) >= len(due):
        raise ValueError("there is no such slot")
    np.add.at(columns[0], slots[allowed], found["cost"][allowed].astype(np.int64))
    np.add.at(columns[1], slots[allowed], 1)
    np.add.at(columns[2], slots[~allowed], 1)
    np.frombuffer(stale, np.bool_).reshape(2, len(due))[:, slots] = True
    return set(slots[columns[0][slots] >= due[slots]].tolist())


def plain_write_stale(counters: Buffer, stale: Buffer, to: Buffer) -> None:
    """Copies the counters of the slots that are marked, and takes the marks away."""
    marks = np.frombuffer(stale, np.bool_)
    slots = np.flatnonzero(marks)
    columns = np.frombuffer(counters, np.int64).reshape(3, len(marks))
    np.frombuffer(to, np.int64).reshape(3, len(marks))[:, slots] = columns[:, slots]
    marks[slots] = False


def plain_joined(texts: list[bytes], numbers: Buffer) -> bytes:
    """The texts of these numbers (uint32), one after another."""
    return b"".join([texts[number] for number in np.frombuffer(numbers, np.uint32).tolist()])


def packed_list(count: int, texts: bytes) -> bytes:
    """A list of msgpack: so many encoded values, one after another."""
    if count <= _FIXED_MAX:
        return bytes((_FIXED | count,)) + texts
    if count <= _16_MAX:
        return _16 + count.to_bytes(2, "big") + texts
    return _32 + count.to_bytes(4, "big") + texts


if TYPE_CHECKING:  # the compiled ones are called alike
    Numbering = PlainNumbering
    tally = plain_tally
    count_leases = plain_count_leases
    write_stale = plain_write_stale
    joined = plain_joined
    IS_COMPILED: bool
else:
    try:
        from limiter.stream._columns import Numbering, count_leases, joined, tally, write_stale

        IS_COMPILED = True
    except ImportError:
        Numbering, tally, joined = PlainNumbering, plain_tally, plain_joined
        count_leases, write_stale = plain_count_leases, plain_write_stale
        IS_COMPILED = False

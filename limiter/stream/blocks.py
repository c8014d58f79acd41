"""A block of the stream of decisions: columns of those that are rows, sums of those that are not, their texts once.

Every decision has a number in its source. A block says which of them it accounts for, so a consumer that remembers how
far a source is counted takes each exactly once, in a row or in a sum. Source: reference limiter 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from limiter.spending.ring import ALLOWED, DEGRADED, DUPLICATE, RECORD_TYPE, Records
from limiter.stream.shadows import MINUTE_US, SHADOW_TYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    from limiter.stream.shadows import Shadows

TOTAL_TYPE: Final = np.dtype(
    [
        ("row", "<u4"),
        ("minute", "<u4"),  # since the epoch
        *((name, "<u4") for name in ("allowed", "denied", "repeated", "degraded")),
        ("rows", "<u4"),  # decisions that are rows of the stream
        ("weight", "<u8"),  # of these rows: what they say about all decisions
        *((name, "<u8") for name in ("allowed_cost", "denied_cost", "newest")),  # newest: microseconds since the epoch
    ]
)


class Row(NamedTuple):
    """What many decisions have in common: the key, and the policy that decided."""

    key: str
    policy_id: str
    policy_version: int


class Part(NamedTuple):
    """What a consumer has not counted yet of a block."""

    records: Records
    numbers: npt.NDArray[np.int64]
    weights: npt.NDArray[np.uint32]
    totals: npt.NDArray[np.void]  # of TOTAL_TYPE: decisions that are in no record
    shadows: Shadows
    until: int  # all numbers below it are accounted for

    def summed(self) -> npt.NDArray[np.void]:
        """All of it by row and minute, exact: ``TOTAL_TYPE``; a row and minute may come twice."""
        return np.concatenate((summed(self.records, self.weights), self.totals))


class Block(Struct, frozen=True, kw_only=True):
    """Decisions as records of ``RECORD_TYPE``, whose ``row`` is an index into ``rows``.

    Decision ``at`` has the number ``first + places[at]`` of its source. A source's blocks of one partition follow one
    another by number; what comes again after a kill has the numbers that it had, and is all records.
    """

    source: str
    first: int
    places: bytes
    rows: list[Row]
    records: bytes
    weights: bytes = b""  # uint32 of each record; empty: 1
    totals: bytes = b""  # TOTAL_TYPE: the decisions from ``since`` on that are in no record
    since: int = 0
    until: int = 0
    gap: int = 0  # decisions of the source that were lost so far, in all partitions
    shadows: bytes = b""  # SHADOW_TYPE: what policies in shadow mode would have refused of these decisions

    def columns(self) -> Records:
        """The decisions."""
        return np.frombuffer(self.records, RECORD_TYPE)

    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of each decision."""
        return np.frombuffer(self.places, np.uint32).astype(np.int64) + self.first

    def after(self, counted: int) -> Part:
        """What is not counted yet when all numbers below ``counted`` are."""
        records, numbers = self.columns(), self.numbers()
        weights = np.frombuffer(self.weights, np.uint32) if self.weights else np.ones(len(records), np.uint32)
        until = self.until or int(numbers.max(initial=-1)) + 1
        fresh = numbers >= counted
        sums = self.totals if self.since >= counted else b""  # a sum cannot be counted in part
        shadows = np.frombuffer(self.shadows, SHADOW_TYPE)
        return Part(
            records=records[fresh],
            numbers=numbers[fresh],
            weights=weights[fresh],
            totals=np.frombuffer(sums, TOTAL_TYPE),
            shadows=shadows[shadows["place"].astype(np.int64) + self.first >= counted],
            until=max(until, counted),
        )


decode: Final = msgspec.msgpack.Decoder(Block).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def encoded_row(row: Row) -> bytes:
    """As it stands in a block."""
    return _encode(row)


def encode(block: Block, rows: bytes) -> bytes:
    """A block whose rows are encoded already, as a list."""
    return _encode(msgspec.structs.replace(block, rows=msgspec.Raw(rows)))


def summed(records: Records, weights: npt.NDArray[np.uint32] | None = None) -> npt.NDArray[np.void]:
    """Records by row and minute. ``weights`` None: they are no rows of the stream, only summed."""
    minutes = records["at"] // MINUTE_US
    places, indexes = np.unique((records["row"].astype(np.uint64) << 32) | minutes, return_inverse=True)
    found = np.zeros(len(places), TOTAL_TYPE)
    found["row"], found["minute"] = places >> np.uint64(32), places & np.uint64(0xFFFFFFFF)
    flags, cost = records["flags"], records["cost"]
    repeated = flags & DUPLICATE != 0
    allowed = (flags & ALLOWED != 0) & ~repeated
    denied = (flags & ALLOWED == 0) & ~repeated

    def counted(which: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        return np.bincount(indexes[which], minlength=len(places))

    def cost_of(which: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        return np.bincount(indexes[which], cost[which], minlength=len(places))

    found["allowed"], found["denied"], found["repeated"] = counted(allowed), counted(denied), counted(repeated)
    found["degraded"] = counted((flags & DEGRADED != 0) & ~repeated)
    found["allowed_cost"], found["denied_cost"] = cost_of(allowed), cost_of(denied)
    if weights is not None:
        found["rows"] = np.bincount(indexes, minlength=len(places))
        found["weight"] = np.bincount(indexes, weights, minlength=len(places))
    np.maximum.at(found["newest"], indexes, records["at"])
    return found


def decisions_in(block: Block) -> int:
    """How many decisions a block accounts for."""
    totals = np.frombuffer(block.totals, TOTAL_TYPE)
    sums = sum(int(totals[name].sum()) for name in ("allowed", "denied", "repeated"))
    return len(block.records) // RECORD_TYPE.itemsize + sums

"""Blocks of recorded decisions: split by the partition of their keys, sampled as policies say, handed to a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from limiter.spending.ring import ALLOWED, APPROXIMATE, DEGRADED, DUPLICATE, LEFT_OUT, RECORD_TYPE, Records
from limiter.stream.blocks import Block, encode, summed
from limiter.stream.columns import Numbering
from limiter.stream.shadows import shadows_from, shadows_in, summed_beside
from schemas.limiter import limits
from schemas.limiter.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.stream.row_dictionary import Rows
    from limiter.stream.sampling import Sampling
    from limiter.stream.shadows import Shadows

_OF_A_DECISION: Final = ALLOWED | DEGRADED | DUPLICATE | APPROXIMATE  # of the flags; the rest stays in this process
_PLACE_BYTES: Final = 4


class BlockSink(Protocol):
    """Where blocks go."""

    @property
    def under_way(self) -> int:
        """Blocks that were taken and are not yet safe."""
        ...

    @property
    def lost(self) -> int:
        """Decisions in blocks that were taken and never arrived."""
        ...

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when there is no room."""
        ...


class Origin(NamedTuple):
    """Whose decisions they are: the source in their ``event_id``, its dictionary, its samples, and what it has lost."""

    source: str
    rows: Rows
    sampling: Sampling | None = None
    gap: Callable[[], int] = int


class Packer:
    """Hands decisions to a sink as blocks. Never waits and never fails: what the sink has no room for is counted."""

    def __init__(self, sink: BlockSink) -> None:
        self._sink = sink
        self._numbering = Numbering()
        self.sent = 0  # decisions
        self.refused = 0

    def send(self, origin: Origin, first: int, taken: Records) -> None:
        """Sends decisions with numbers from ``first`` on."""
        shadows = shadows_in(taken)
        for at in range(0, len(taken), limits.LIMIT_DECISIONS_BLOCK_MAX):
            some = taken[at : at + limits.LIMIT_DECISIONS_BLOCK_MAX]
            mask = _OF_A_DECISION | LEFT_OUT * (origin.sampling is not None)
            parts = self._numbering.split(some, origin.rows.partitions, DECISIONS_PARTITIONS, mask)
            here = shadows_from(shadows, at)
            for partition, part in enumerate(parts):
                if count := len(part[0]) // _PLACE_BYTES:
                    if self._sink.send(partition, _encoded(origin, first + at, part, here)):
                        self.sent += count
                    else:
                        self.refused += count


def _encoded(origin: Origin, first: int, part: tuple[bytes, bytes, bytes], shadows: Shadows) -> bytes:
    """A block of the decisions of a part, with those of the shadows that are of them."""
    places, records, numbers = part
    if len(shadows):
        shadows = shadows[np.isin(shadows["place"], np.frombuffer(places, np.uint32))]
    since = first + int.from_bytes(places[:_PLACE_BYTES], "little")
    until = first + int.from_bytes(places[-_PLACE_BYTES:], "little") + 1
    weights, totals = b"", b""
    if origin.sampling is not None:
        decided = np.frombuffer(records, RECORD_TYPE)
        kept = origin.sampling.split(decided, np.frombuffer(numbers, np.uint32).tolist())
        totals, weights = summed(decided[~kept.mask]).tobytes(), kept.weights.tobytes()
        decided = decided[kept.mask]
        decided["flags"] &= np.uint32(_OF_A_DECISION)
        records, places = decided.tobytes(), np.frombuffer(places, np.uint32)[kept.mask].tobytes()
        if len(shadows):
            shadows = summed_beside(shadows, np.frombuffer(places, np.uint32))
    if len(shadows):
        different, shadows["row"] = np.unique(shadows["row"], return_inverse=True)
        shadows["row"] += len(numbers) // _PLACE_BYTES
        numbers += different.tobytes()
    block = Block(
        source=origin.source,
        first=first,
        places=places,
        rows=[],
        records=records,
        weights=weights,
        totals=totals,
        since=since,
        until=until,
        gap=origin.gap(),
        shadows=shadows.tobytes(),
    )
    return encode(block, origin.rows.encoded(numbers))

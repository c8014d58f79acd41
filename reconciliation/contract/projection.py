"""What a projection must be able to do to be rebuilt, compared and exchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciliation.contract.compare import Row
    from sinks.streams.intake import Accepted


@dataclass(slots=True)
class Extent:
    """What a replay covered of each partition: the first seq that it took, and the last seq that is compared."""

    first_seqs: dict[int, int] = field(default_factory=dict)
    last_seqs: dict[int, int] = field(default_factory=dict)
    events: int = 0

    def note(self, events: Sequence[Accepted]) -> None:
        """Counts events that were applied."""
        self.events += len(events)
        for taken in events:
            self.first_seqs.setdefault(taken.partition, taken.event.seq)

    def bounds(self) -> list[tuple[int, int, int]]:
        """(partition, first seq, last seq) of every partition with something to compare."""
        return [
            (p, first, self.last_seqs[p]) for p, first in sorted(self.first_seqs.items()) if first <= self.last_seqs[p]
        ]


class Projection(Protocol):
    """One derived table and its shadow."""

    name: str
    columns: tuple[str, ...]
    key_width: int

    def begin(self) -> None:
        """Makes an empty shadow, dropping an older one."""

    def apply(self, events: Sequence[Accepted]) -> None:
        """Folds events into the shadow, in order."""

    def complete(self, extent: Extent, *, from_zero: bool) -> None:
        """Everything is applied: adds what lies before the start, when the comparison needs it."""

    def live_rows(self, extent: Extent) -> Iterator[Row]:
        """The live rows within the extent, ordered by key."""

    def shadow_rows(self, extent: Extent) -> Iterator[Row]:
        """The shadow's rows within the extent, ordered by key."""

    def drop(self) -> None:
        """Removes the shadow."""


class ExchangedProjection(Projection, Protocol):
    """One whose shadow may take the place of the live table."""

    def hold(self) -> None:
        """Whoever writes the live table waits until the transaction ends."""

    def exchange(self) -> None:
        """Shadow and live table change places, in the transaction that is open."""

"""What is said of partitions, and of other work, that stands still until an operator looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sinks.streams.intake import Halt


class StandsStill(str):
    """Why partitions or other work stand still, of a process that does all else: it has started; no start mends it."""

    __slots__ = ()


def why_still(halts: Mapping[int, Halt]) -> StandsStill | None:
    """The words of all of them; None where there are none. Another thread may change them meanwhile."""
    return StandsStill("; ".join(halt.words for _, halt in sorted(dict(halts).items()))) or None


def together(reasons: Iterable[str | None]) -> str | None:
    """The reasons of several in one process; that partitions stand still where nothing else is amiss in any."""
    found = [reason for reason in reasons if reason]
    words = "; ".join(found)
    return (StandsStill(words) if all(isinstance(reason, StandsStill) for reason in found) else words) or None

"""Row by row: two streams in the order of their keys, however long, with a bounded part of them in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciliation import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = tuple[Any, ...]


@dataclass(slots=True)
class Comparison:
    """What was found: how many rows on either side, how many differ, and the first of these."""

    projection: str
    rows_live: int = 0
    rows_shadow: int = 0
    differences: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)

    def add(self, difference: dict[str, Any]) -> None:
        """Counts one difference and keeps it while there is room."""
        self.differences += 1
        if len(self.sample) < limits.REPLAY_DIFFERENCES_SHOWN_MAX:
            self.sample.append(difference)


def compare_rows(
    projection: str, columns: Sequence[str], key_width: int, live: Iterator[Row], shadow: Iterator[Row]
) -> Comparison:
    """Compares two streams ordered by their first ``key_width`` columns. A row that is there twice is a difference."""
    found = Comparison(projection)
    ours, theirs = next(live, None), next(shadow, None)
    while ours is not None or theirs is not None:
        key_live = None if ours is None else ours[:key_width]
        key_shadow = None if theirs is None else theirs[:key_width]
        if theirs is None or (key_live is not None and key_shadow is not None and key_live < key_shadow):
            found.add({"key": _named(columns, key_live), "reason": "only live"})
            found.rows_live += 1
            ours = next(live, None)
        elif ours is None or key_live is None or (key_shadow is not None and key_shadow < key_live):
            found.add({"key": _named(columns, key_shadow), "reason": "only in the replay"})
            found.rows_shadow += 1
            theirs = next(shadow, None)
        else:
            if ours != theirs:
                pairs = zip(columns, ours, theirs, strict=True)
                values = {c: {"live": a, "replay": b} for c, a, b in pairs if a != b}
                found.add({"key": _named(columns, key_live), "reason": "differs", "values": values})
            found.rows_live += 1
            found.rows_shadow += 1
            ours, theirs = next(live, None), next(shadow, None)
    return found


def _named(columns: Sequence[str], key: Row | None) -> dict[str, Any]:
    return dict(zip(columns, key or (), strict=False))

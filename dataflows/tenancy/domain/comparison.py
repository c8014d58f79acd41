"""Compares the two sides of a move, resource by resource; used by the mover and by reads."""

from __future__ import annotations

from msgspec import Struct

Side = tuple[int, bytes, bool]  # version, sealed payload, deleted


class Comparison(Struct):
    """The differences found; rows of one version must have the same content."""

    match: int = 0
    target_behind: int = 0
    missing: int = 0
    diff: int = 0
    target_ahead: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether every row was the same."""
        return not (self.target_behind or self.missing or self.is_wrong)

    @property
    def is_wrong(self) -> bool:
        """Whether a difference was found that waiting does not mend."""
        return bool(self.diff or self.target_ahead)


def count(found: Comparison, newest: int, source: Side | None, target: Side | None) -> None:
    """Adds the two sides of one resource; ``newest`` is the version of its head."""
    if target is None:
        found.missing += 1
    elif target[0] > newest:
        found.target_ahead += 1
    elif source is None or target[0] != source[0]:  # one side waits for an image: look again
        found.target_behind += 1
    elif target[1:] == source[1:]:
        found.match += 1
    else:
        found.diff += 1

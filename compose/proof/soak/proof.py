"""One comparison of two independent accounts of what happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One comparison. ``problems`` empty: it holds."""

    name: str
    says: str
    problems: list[str]

    @property
    def holds(self) -> bool:
        """Nothing differs."""
        return not self.problems

"""Places that several share: as long as nobody else is there one gets half of them; the fuller they are, the less.

A place is given to whoever has fewer than are free: N who take all that they get have 1/(N+1) each, and the next one
has places, too.
"""

from __future__ import annotations


class Shares:
    """Who has how many of so many places."""

    def __init__(self, places: int) -> None:
        self._free = places
        self.taken: dict[str, int] = {}

    def take(self, name: str) -> bool:
        """One more for this one; False where it has its share."""
        taken = self.taken.get(name, 0)
        if taken >= self._free:
            return False
        self.taken[name] = taken + 1
        self._free -= 1
        return True

    def give_back(self, name: str) -> None:
        """One that was taken."""
        self._free += 1
        left = self.taken[name] - 1
        if left:
            self.taken[name] = left
        else:
            del self.taken[name]

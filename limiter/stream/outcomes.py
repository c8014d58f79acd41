"""What was decided, added up from the ring when it is flushed: no decision pays for its metrics."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from limiter.spending.ring import ALLOWED, ALSO, APPROXIMATE, DEGRADED, DUPLICATE
from limiter.stream.columns import KINDS, tally

if TYPE_CHECKING:
    from limiter.spending.ring import Records

_OUTCOMES: Final = {0: "denied", ALLOWED: "allowed", ALLOWED | DUPLICATE: "repeated"}
_TALLY: Final = struct.Struct(f"<{2 * KINDS}Q")


class Outcomes:
    """Totals of one process until its last flush."""

    def __init__(self) -> None:
        self._by_flags = dict.fromkeys(_OUTCOMES, 0)
        self.from_leases = 0  # allowed, and no store was asked
        self.overshoot = 0  # cost that was allowed without store and lease: so much may be past the quotas
        self.refused_in_shadow: dict[str, int] = {}  # decisions that a policy in shadow mode would have refused
        self.degraded_s = 0.0  # time between two flushes in which the failure mode decided

    def named(self) -> dict[str, int]:
        """Decisions by what was decided."""
        return {name: self._by_flags[flags] for flags, name in _OUTCOMES.items()}

    def would_refuse(self, policy_id: str) -> None:
        """A policy in shadow mode would have refused a decision; what was decided is counted elsewhere."""
        self.refused_in_shadow[policy_id] = self.refused_in_shadow.get(policy_id, 0) + 1

    def count(self, taken: Records) -> bool:
        """Adds what was taken from the ring; True when the failure mode decided some of it."""
        tallied = _TALLY.unpack(tally(taken))
        is_degraded = False
        for flags in range(KINDS):
            count, cost = tallied[flags], tallied[KINDS + flags]
            if not count:
                continue
            is_degraded |= flags & DEGRADED != 0
            kind = flags & (ALLOWED | DUPLICATE | ALSO)
            if kind in self._by_flags:
                self._by_flags[kind] += count
            if kind == ALLOWED:
                self.from_leases += count * (flags & (APPROXIMATE | DEGRADED) == APPROXIMATE)
                self.overshoot += cost * (flags & DEGRADED != 0)
        return is_degraded

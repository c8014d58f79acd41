"""What must be so of one tenant after what was done: pure, and told apart from how it was asked.

The one thing that would break: a model that reads its expectations from the service agrees with whatever is wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec import Struct, field

ENDED: Final = frozenset({"completed", "aborted", "rolled_back"})
#: why a move may end that nobody aborted: a process was killed for so long that callers would have waited
GIVEN_UP: Final = "the fence lasted too long"
Json = dict[str, Any]


class Move(Struct):
    """A move that was begun. ``word``: what was last asked of it, if anything."""

    migration_id: str
    source: str
    target: str
    from_generation: int
    word: str = ""

    def wrong_end(self, found: Json, placement: Json) -> str | None:
        """What is wrong with how it ended, by its document and its tenant's placement; None when nothing is."""
        state, generation = found["state"], placement["generation"]
        serving, raised_min = {
            "completed": (self.target, 1),
            "rolled_back": (self.source, 2),
            "aborted": (self.source, 0),
        }[state]
        if placement["placement_id"] != serving:
            return f"{state}, and {placement['placement_id']} serves in place of {serving}"
        if generation < self.from_generation + raised_min:
            return f"{state} from generation {self.from_generation}, and it is {generation}"
        if state == "aborted" and self.word != "abort" and found["reason"] != GIVEN_UP:
            return f"aborted by itself: {found['reason']}"
        if found["mismatches"]:
            return f"{found['mismatches']} mismatches"
        return None


class TenantModel(Struct):
    """One tenant: its live resources, what it deleted, what it used."""

    live: dict[str, tuple[int, Json]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    keys: list[tuple[str, Json, str]] = field(default_factory=list)  # of creates: identity, payload, what it made
    writes: int = 0
    used: Counter[str] = field(default_factory=Counter)  # quantity, by dimension
    events: Counter[str] = field(default_factory=Counter)
    contradicted: set[str] = field(default_factory=set)  # events that came again with another content

    def created(self, key: str, payload: Json, result: Json) -> None:
        """A create was acknowledged."""
        self.live[result["resource_id"]] = (1, payload)
        self.keys.append((key, payload, result["resource_id"]))
        self.writes += 1

    def replaced(self, resource_id: str, payload: Json) -> None:
        """The next version was acknowledged."""
        self.live[resource_id] = (self.live[resource_id][0] + 1, payload)
        self.writes += 1

    def deleted(self, resource_id: str) -> None:
        """It is gone for good."""
        del self.live[resource_id]
        self.gone.append(resource_id)
        self.writes += 1

    def metered(self, dimension: str, quantities: list[int]) -> None:
        """New events of a dimension, however often they were sent."""
        self.used[dimension] += sum(quantities)
        self.events[dimension] += len(quantities)

    def differs(self, served: list[Json]) -> str | None:
        """What is wrong with a list of all resources; None when nothing is."""
        found = {one["resource_id"]: (one["version"], one["payload"]) for one in served}
        if len(found) != len(served):
            return f"{len(served) - len(found)} resources are listed twice"
        if lost := [id_ for id_, one in self.live.items() if found.get(id_) != one]:
            return f"{len(lost)} acknowledged writes are not served: {self.live[lost[0]]}, found {found.get(lost[0])}"
        if more := found.keys() - self.live.keys():
            back = sorted(more & set(self.gone))
            return f"deleted, and back: {back}" if back else f"nobody made {sorted(more)}"
        return None

    def usage(self) -> dict[str, tuple[int, int]]:
        """Quantity and events by dimension; each committed write is metered once."""
        found = {name: (self.used[name], count) for name, count in self.events.items()}
        return found | ({"resource_writes": (self.writes, self.writes)} if self.writes else {})

"""Fan-out without its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflows.social.fanout.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflows.social.fanout.counting import Work
    from schemas.records import Event


class Whole(Spread):
    """Does at once what waits, too."""

    def events(self, events: Iterable[Event]) -> Work:
        work = super().events(events)
        while self.rest():
            pass
        return work

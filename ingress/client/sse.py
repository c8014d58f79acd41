"""Server-sent events: from lines to events, each once, with the cursor to resume after it."""

from __future__ import annotations

import json
from collections import OrderedDict

from ingress import limits
from ingress.client.messages import StreamedEvent


class EventReader:
    """Fed with the lines of a stream, over as many connections as it takes. ``cursor`` is where to resume."""

    def __init__(self, cursor: str | None) -> None:
        self.cursor = cursor
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._id: str | None = None
        self._data: list[str] = []

    def connected(self) -> None:
        """A new connection: half an event of the old one is dropped, it will come again."""
        self._id, self._data = None, []

    def feed(self, line: str) -> StreamedEvent | None:
        """The event that this line completes, unless it was seen before."""
        if line.startswith("id:"):
            self._id = line[3:].strip()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line and self._data:
            return self._complete()
        return None

    def _complete(self) -> StreamedEvent | None:
        event = json.loads("\n".join(self._data))
        self.cursor = self._id or self.cursor
        self._id, self._data = None, []
        event_id = event["event_id"]
        if event_id in self._seen:
            return None
        self._seen[event_id] = None
        if len(self._seen) > limits.CLIENT_SEEN_EVENTS_MAX:
            self._seen.popitem(last=False)
        return StreamedEvent(self.cursor or "", event)

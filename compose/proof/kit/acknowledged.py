"""What callers were told is committed: ``millrace check --acknowledged`` looks for each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ingress.client import Committed


class Acknowledgements:
    """An NDJSON file of answers that said committed: one line each, repeated answers too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = path.open("a", encoding="utf-8")

    def note(self, merchant: str, key: str, committed: Committed) -> None:
        """Writes down one answer. A refund has a version of its own, which is not its event's."""
        result = committed.result
        line = {
            "merchant": merchant,
            "idempotency_key": key,
            "aggregate_key": committed.event["aggregate_key"],
            "event_id": committed.event["event_id"],
            "version": result["version"] if result["object"] == "payment_intent" else None,
        }
        self._file.write(json.dumps(line) + "\n")
        self.count += 1

    def close(self) -> None:
        """Everything is in the file afterwards."""
        self._file.close()

"""The trial balance, some seconds old at most: it reads every account, and the overview is opened often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ingress import limits

if TYPE_CHECKING:
    from ingress.console.state import Console


class Totals:
    """One per process."""

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._rows: list[dict[str, Any]] = []

    async def recent(self, console: Console) -> list[dict[str, Any]]:
        """Debits and credits of every kind of account, by currency. Raises Unavailable."""
        if time.monotonic() - self._read_at > limits.CONSOLE_TOTALS_KEPT_S:
            self._rows = await console.records("trial_totals")
            self._read_at = time.monotonic()
        return self._rows

"""The mover: one process that does, one after the other, whatever waits for it in the database."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataflows.worker.contract import WorkerPlace


class Mover:
    """Works until it is stopped."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        self._stop = threading.Event()

    def run(self) -> None:
        """Does what waits, until ``stop``."""
        self._stop.wait()

    def stop(self) -> None:
        """Ends ``run`` soon."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while it works."""
        return None


def build(place: WorkerPlace) -> Mover:
    """One process of it."""
    return Mover(place)

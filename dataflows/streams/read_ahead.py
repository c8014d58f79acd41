"""Reads the next batches while the database works on the ones before: a thread, and a short queue between the two."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

from dataflows import limits as dataflows_limits
from sinks import limits as sinks_limits

Batch = TypeVar("Batch")


class ReadAhead(Generic[Batch]):
    """Over one reader, which nobody else uses until ``close``. What it raises is raised where it is read."""

    def __init__(self, read: Callable[[], Sequence[Batch]], name: str) -> None:
        self._read = read
        self._batches: Queue[Sequence[Batch] | Exception] = Queue(dataflows_limits.READ_AHEAD_MAX)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-ahead", daemon=True)
        self._thread.start()

    def read(self) -> Sequence[Batch]:
        """The next ones; none after a wait."""
        try:
            found = self._batches.get(timeout=sinks_limits.KAFKA_IDLE_WAIT_S)
        except Empty:
            return []
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Reads nothing more. What was read and not taken is read again from the positions."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found: Sequence[Batch] | Exception = self._read()
            except Exception as error:  # noqa: BLE001 - whoever reads gets it
                found = error
            if isinstance(found, Exception) or found:
                self._hand_over(found)
            if isinstance(found, Exception):
                return

    def _hand_over(self, found: Sequence[Batch] | Exception) -> None:
        while not self._stop.is_set():
            try:
                self._batches.put(found, timeout=dataflows_limits.READ_AHEAD_POLL_S)
            except Full:
                continue
            return

"""A Kafka of a test's own for reports of leases: it says that they arrived when the test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.stream.lease_book import LeaseReport, decode_reports

if TYPE_CHECKING:
    from collections.abc import Callable


class Reports:
    """Messages that were sent, and those that arrived."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Callable[[bool], None]]] = []
        self.arrived: list[bytes] = []

    def poll(self) -> None:
        """Nothing is said before ``arrive`` and ``lose``."""

    def send(self, partition: int, message: bytes, told: Callable[[bool], None]) -> bool:
        """Takes every message."""
        del partition
        self.sent.append((message, told))
        return True

    def arrive(self) -> None:
        """All that was sent arrives."""
        for message, told in self._taken():
            self.arrived.append(message)
            told(True)

    def lose(self) -> None:
        """Nothing of it does."""
        for _, told in self._taken():
            told(False)

    def newest(self) -> dict[str, LeaseReport]:
        """The newest report that arrived of every lease."""
        found: dict[str, LeaseReport] = {}
        for message in self.arrived:
            for report in decode_reports(message):
                if report.lease_id not in found or found[report.lease_id].seq <= report.seq:
                    found[report.lease_id] = report
        return found

    def _taken(self) -> list[tuple[bytes, Callable[[bool], None]]]:
        taken, self.sent = self.sent, []
        return taken

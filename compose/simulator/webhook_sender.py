"""Delivers the outbox's events: at least once each, a bounded number at a time, again after a kill.

One thread reads what is due, a few connections deliver it, and what came of it is booked before more is read. Events
about one reference go over one connection in the order in which they are due. A receiver that cannot be reached is
left alone for a while; one that refuses an event is asked again later.
"""

from __future__ import annotations

import http.client
import sqlite3
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from compose.simulator import errors
from compose.simulator import limits as simulator_limits
from compose.simulator.book.storage import BOOK_FILE_NAME, book_connect
from compose.simulator.statements import QUERIES
from compose.simulator.webhooks import Deliveries, Receiver, backoff_ms, now_ms
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from compose.simulator.metrics import SimulatorMetrics

log = structlog.get_logger()
_OK: Final = range(200, 300)
_AWAY: Final = 0  # in place of a status: nobody is there
_SILENT: Final = 1  # in place of a status: no answer in time, which may be this one event's fault


@dataclass(frozen=True, slots=True)
class _Delivery:
    sequence: int
    event_id: str
    reference: str
    body: str
    tries: int
    booked_at_ms: int


@dataclass(slots=True)
class _Round:
    """What came of the deliveries of one round; shared by its connections, each list grows at its end only."""

    ended: list[int] = field(default_factory=list)
    postponed: list[tuple[int, int]] = field(default_factory=list)
    is_away: bool = False


class WebhookSender:
    """The thread of one simulator that tells its receiver; ``book`` makes deliveries durable."""

    def __init__(
        self, folder: Path, receiver: Receiver, book: Callable[[Deliveries], None], metrics: SimulatorMetrics
    ) -> None:
        self._path = folder / BOOK_FILE_NAME
        self._book = book
        self._metrics = metrics
        self._lanes = [_Lane(receiver) for _ in range(simulator_limits.SIMULATOR_WEBHOOK_LANES)]
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook-sender", daemon=True)

    def start(self) -> None:
        """Begins with what an earlier process left."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something new; cheap, from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Ends within a bound; what is not delivered by then stays in the outbox."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(simulator_limits.SIMULATOR_STOP_SENDER_S)

    def _run(self) -> None:
        pause_ms = simulator_limits.SIMULATOR_WEBHOOK_PAUSE_FIRST_MS
        with closing(book_connect(self._path)) as outbox, ThreadPoolExecutor(len(self._lanes)) as pool:
            while not self._stopping.is_set():
                self._wake.clear()  # before the look: what is written after it wakes again
                deliveries = self._due(outbox)
                if not deliveries:
                    self._wake.wait(self._rest_s(outbox))
                    continue
                is_healthy = self._deliver(pool, deliveries)
                if is_healthy:
                    pause_ms = simulator_limits.SIMULATOR_WEBHOOK_PAUSE_FIRST_MS
                    continue
                self._stopping.wait(pause_ms / 1_000)
                pause_ms = min(pause_ms * 2, simulator_limits.SIMULATOR_WEBHOOK_PAUSE_MAX_MS)
        for lane in self._lanes:
            lane.close()

    def _due(self, outbox: sqlite3.Connection) -> list[_Delivery]:
        try:
            rows = outbox.execute(
                QUERIES["webhooks_due"], (now_ms(), simulator_limits.SIMULATOR_WEBHOOK_BATCH_MAX)
            ).fetchall()
        except sqlite3.Error as error:
            log.warning("simulator_outbox_unreadable", error=str(error))
            return []
        return [_Delivery(*row) for row in rows]

    def _rest_s(self, outbox: sqlite3.Connection) -> float:
        """Until the next delivery is due; what is new wakes sooner, unless who booked it went away meanwhile."""
        rest_ms = simulator_limits.SIMULATOR_WEBHOOK_IDLE_MS
        with suppress(sqlite3.Error):  # the next look says so
            (next_due_ms,) = outbox.execute(QUERIES["webhook_next_due"]).fetchone()
            if next_due_ms is not None:
                rest_ms = max(0, min(rest_ms, next_due_ms - now_ms()))
        return rest_ms / 1_000

    def _deliver(self, pool: ThreadPoolExecutor, deliveries: Sequence[_Delivery]) -> bool:
        """False when the receiver is away or the outcome could not be booked: then it is all tried again."""
        shares: list[list[_Delivery]] = [[] for _ in self._lanes]
        for delivery in deliveries:
            shares[zlib.crc32(delivery.reference.encode()) % len(shares)].append(delivery)
        came_of = _Round()
        list(pool.map(self._share_out, self._lanes, shares, [came_of] * len(shares)))
        if came_of.ended or came_of.postponed:
            try:
                self._book(Deliveries(tuple(came_of.ended), tuple(came_of.postponed)))
            except (errors.SimulatorError, TimeoutError, RuntimeError) as error:
                log.warning("simulator_deliveries_not_booked", error=str(error))  # they are delivered again
                return False
        return not came_of.is_away

    def _share_out(self, lane: _Lane, share: Sequence[_Delivery], came_of: _Round) -> None:
        for delivery in share:
            if came_of.is_away or self._stopping.is_set():
                return
            status = lane.deliver(delivery)
            outcome = "away" if status in {_AWAY, _SILENT} else "taken" if status in _OK else "refused"
            self._metrics.webhooks.labels(outcome).inc()
            came_of.is_away |= outcome == "away"
            if status == _AWAY:
                continue  # no fault of this event: it keeps its turn
            if status in _OK or now_ms() - delivery.booked_at_ms > limits.SIMULATOR_WEBHOOK_AGE_MAX_S * 1_000:
                came_of.ended.append(delivery.sequence)
            else:
                came_of.postponed.append((now_ms() + backoff_ms(delivery.tries), delivery.sequence))


class _Lane:
    """One kept-alive connection to the receiver; used by one thread at a time."""

    def __init__(self, receiver: Receiver) -> None:
        parts = urlsplit(receiver.url)
        self._receiver = receiver
        self._path = parts.path or "/"
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=simulator_limits.SIMULATOR_WEBHOOK_TIMEOUT_S
        )

    def deliver(self, delivery: _Delivery) -> int:
        """The receiver's status, or why there is none."""
        for _ in range(2):  # an idle connection may have been closed by its other end: a new one tells
            was_open = self._connection.sock is not None
            try:
                return self._post(delivery)
            except TimeoutError:
                self._connection.close()
                return _SILENT
            except (OSError, http.client.HTTPException):
                self._connection.close()
                if not was_open:
                    break
        return _AWAY

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _post(self, delivery: _Delivery) -> int:
        body = delivery.body.encode()
        headers = self._receiver.headers(delivery.event_id, body, int(time.time()))
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse()
        answer.read(simulator_limits.SIMULATOR_WEBHOOK_ANSWER_BYTES_MAX)
        if not answer.isclosed():  # more than anybody needs to say: not worth reading to its end
            self._connection.close()
        return answer.status

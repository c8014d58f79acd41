"""A worker that counts in Postgres: what took too long is taken again, in smaller transactions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from dataflows import limits
from dataflows.owner.transaction import size
from dataflows.worker import event_worker
from dataflows.worker.contract import WorkerPlace
from dataflows.worker.event_worker import CountingWorker
from schemas.tenancy.service import SERVICE
from sinks.streams.intake import Position
from sinks.streams.positions import Taken

if TYPE_CHECKING:
    from collections.abc import Sequence


class Topic:
    """In the follower's place: events for ever; the worker stops after some reads."""

    def __init__(self, *_: object) -> None:
        self.asked: list[int] = []
        self.worker: CountingWorker | None = None

    def read(self, events_max: int, timeout_s: float) -> list[Taken]:
        del timeout_s
        self.asked.append(events_max)
        if len(self.asked) == 5:
            assert self.worker is not None
            self.worker.stop()
        return [Taken(0, 1, 0, cast("Any", [None] * events_max), Position(events_max, events_max))]

    def advance(self, *_: object) -> None: ...
    def begin_again(self, *_: object) -> None: ...
    def close(self) -> None: ...


class Session:
    """Transactions of it begin and end."""

    def transaction(self) -> nullcontext[None]:
        return nullcontext()

    def close(self) -> None: ...


def test_events_that_took_too_long_come_again_fewer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    monkeypatch.setattr(event_worker, "Follower", lambda *_: topic)
    monkeypatch.setattr(event_worker.owner_connection, "connect", lambda *_: Session())
    monkeypatch.setattr(size.sinks_limits, "OWNER_TRANSACTION_TIMEOUT_MS", 0)
    most = limits.WORKER_EVENTS_MAX

    def count(_: object, taken: Sequence[Taken]) -> None:
        if sum(len(one.events) for one in taken) > most // 4:
            raise psycopg.OperationalError("terminating connection due to transaction timeout")

    place = WorkerPlace(name="counts", kafka=cast("Any", None), postgres_dsn="", client_id="c")
    topic.worker = CountingWorker(place, SERVICE, lambda _: None, count)
    topic.worker.run()
    assert topic.asked == [most, most // 2, most // 4, most // 4, most // 4]

"""Single commands over HTTP in an open loop: create and confirm, at a fixed rate whatever the server does.

Arrivals follow a schedule, and a latency counts from the scheduled start, also when every connection was busy then:
a stall is seen by every request that it delayed (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compose.proof import limits
from compose.proof.bench.http.connection import Answer, Connection, ConnectionLostError
from compose.proof.bench.http.latency import Latencies
from compose.proof.bench.http.requests import created_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.bench.http.requests import Requests

_CREATED: Final = 201
_OK: Final = 200
_PER_PAYMENT: Final = 2  # a create and a confirm
#: a payment is confirmed this long after its creation was due
_CONFIRM_AFTER_S: Final = 0.5


@dataclass(slots=True)
class Trip:
    """When one command was due, sent and answered, by the wall clock in microseconds."""

    due: int
    sent: int
    answered: int


@dataclass(slots=True)
class SingleRun:
    """What a run saw."""

    seconds: float = 0.0
    sent: int = 0  # with the warm-up
    sent_before: int = 0  # in the warm-up
    answered: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    lost_connections: int = 0
    create: Latencies = field(default_factory=Latencies)
    confirm: Latencies = field(default_factory=Latencies)
    all: Latencies = field(default_factory=Latencies)
    trips: dict[str, Trip] = field(default_factory=dict)  # by idempotency key


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePlan:
    """How the load runs. Commands that are due in the warm-up are sent and not counted."""

    rate: float
    seconds: float
    connections: int
    warm_up_s: float
    look: Callable[[], object]  # at what is spent: called when the warm-up is over, and when all is answered
    prefix: str


class SingleLoad:
    """One run against one ingress address."""

    def __init__(self, requests: Requests, host: str, port: int, plan: SinglePlan) -> None:
        self._requests = requests
        self._plan = plan
        self._connections = [Connection(host, port) for _ in range(plan.connections)]
        self._due: asyncio.Queue[tuple[float, int, bool] | None] = asyncio.Queue()
        self._created: dict[int, asyncio.Future[str]] = {}
        self._seen = SingleRun()
        self._counts_from = 0.0

    async def run(self) -> SingleRun:
        """Sends everything that the plan makes due, and returns when all is answered."""
        plan = self._plan
        began = time.perf_counter()
        self._counts_from = began + plan.warm_up_s
        asyncio.get_running_loop().call_later(plan.warm_up_s, self._warm)
        workers = [asyncio.create_task(self._work(connection)) for connection in self._connections]
        try:
            await self._pace(began)
            for _ in workers:
                self._due.put_nowait(None)
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            for connection in self._connections:
                connection.close()
        self._seen.seconds = time.perf_counter() - self._counts_from
        plan.look()
        return self._seen

    def _warm(self) -> None:
        self._seen.sent_before = self._seen.sent
        self._plan.look()

    async def _pace(self, began: float) -> None:
        """Makes commands due by the schedule, never later because an answer is."""
        payments_per_s = self._plan.rate / _PER_PAYMENT
        payments = int(payments_per_s * (self._plan.warm_up_s + self._plan.seconds))
        schedule = [(began + n / payments_per_s, n, False) for n in range(payments)]
        # Half a slot beside the creates, so that the two kinds alternate evenly.
        lag = _CONFIRM_AFTER_S + 1 / (_PER_PAYMENT * payments_per_s)
        schedule += [(due + lag, n, True) for due, n, _ in schedule]
        schedule.sort()
        loop = asyncio.get_running_loop()
        for entry in schedule:
            due, number, is_confirm = entry
            if (pause := due - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            if not is_confirm:
                self._created[number] = loop.create_future()
            self._due.put_nowait(entry)

    async def _work(self, connection: Connection) -> None:
        while (entry := await self._due.get()) is not None:
            due, number, is_confirm = entry
            if is_confirm:
                key = f"{self._plan.prefix}-confirm-{number}"
                request = self._requests.confirm(key, await self._created[number])
                del self._created[number]  # its create has set it
            else:
                key = f"{self._plan.prefix}-create-{number}"
                request = self._requests.create(key, number)
            sent = time.perf_counter()
            self._seen.sent += 1
            answer = await self._ask(connection, request)
            self._note(key, due, sent, answer, is_confirm=is_confirm)
            if not is_confirm:
                # A create that was refused leaves its confirm a 404, which is counted as refused too.
                created = created_id(answer.body) if answer.status == _CREATED else "pi_missing"
                self._created[number].set_result(created)

    async def _ask(self, connection: Connection, request: bytes) -> Answer:
        for _ in range(limits.BENCH_REPEATS_MAX):
            try:
                return await connection.ask(request)
            except ConnectionLostError:
                self._seen.lost_connections += 1
        return Answer(0, b"")

    def _note(self, key: str, due: float, sent: float, answer: Answer, *, is_confirm: bool) -> None:
        now = time.perf_counter()
        if due < self._counts_from:
            return
        if answer.status != (_OK if is_confirm else _CREATED):
            name = str(answer.status)
            self._seen.refused[name] = self._seen.refused.get(name, 0) + 1
            return
        self._seen.answered += 1
        self._seen.all.record(now - due)
        (self._seen.confirm if is_confirm else self._seen.create).record(now - due)
        if len(self._seen.trips) < limits.BENCH_SAMPLE_MAX:
            wall = time.time_ns() // 1_000
            self._seen.trips[key] = Trip(
                due=wall - round((now - due) * 1e6), sent=wall - round((now - sent) * 1e6), answered=wall
            )

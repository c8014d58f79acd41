"""Single commands as fast as they are answered: each connection sends its next one at once.

Every connection creates a payment and confirms it, by turns. The loop is closed, so what counts is committed commands
per second and what one of them costs; a latency is that of a system that is as busy as the connections can make it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compose.proof import limits as proof_limits
from compose.proof.bench.http.connection import Answer, Connection, ConnectionLostError
from compose.proof.bench.http.latency import Latencies
from compose.proof.bench.http.requests import created_id
from ingress import limits as ingress_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.bench.http.requests import Requests

_CREATED: Final = 201
_OK: Final = 200


@dataclass(slots=True)
class ClosedRun:
    """What a run saw."""

    sent: int = 0  # with the warm-up
    sent_before: int = 0  # in the warm-up
    committed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    lost_connections: int = 0
    latencies: Latencies = field(default_factory=Latencies)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPlan:
    """How the load runs. What is answered in the warm-up is not counted."""

    seconds: float
    connections: int
    warm_up_s: float
    look: Callable[[], object]  # at what is spent: called when the warm-up is over, and when all is answered
    prefix: str


class ClosedLoad:
    """One run against one ingress address."""

    def __init__(self, requests: Requests, host: str, port: int, plan: ClosedPlan) -> None:
        self._requests = requests
        self._where = (host, port)
        self._plan = plan
        self._seen = ClosedRun()
        self._counts_from = self._ends_at = 0.0

    async def run(self) -> ClosedRun:
        """Sends until the time is over, and counts what was answered within it."""
        self._counts_from = time.perf_counter() + self._plan.warm_up_s
        self._ends_at = self._counts_from + self._plan.seconds
        asyncio.get_running_loop().call_later(self._plan.warm_up_s, self._warm)
        await asyncio.gather(*(self._work(number) for number in range(self._plan.connections)))
        self._plan.look()
        return self._seen

    def _warm(self) -> None:
        self._seen.sent_before = self._seen.sent
        self._plan.look()

    async def _work(self, worker: int) -> None:
        connection = Connection(*self._where)
        payments = 0
        try:
            while time.perf_counter() < self._ends_at:
                key, payments = f"{self._plan.prefix}-{worker}-{payments}", payments + 1
                created = await self._send(connection, self._requests.create(f"{key}-create", payments), _CREATED)
                if created is None:
                    await asyncio.sleep(ingress_limits.CLIENT_BACKOFF_FIRST_MS / 1_000)
                    continue
                confirm = self._requests.confirm(f"{key}-confirm", created_id(created.body))
                await self._send(connection, confirm, _OK)
        finally:
            connection.close()

    async def _send(self, connection: Connection, request: bytes, expected: int) -> Answer | None:
        """The answer, None when it was not the expected one."""
        began = time.perf_counter()
        self._seen.sent += 1
        answer = await self._ask(connection, request)
        now = time.perf_counter()
        is_counted = self._counts_from <= now <= self._ends_at
        if answer.status != expected:
            if is_counted:
                name = str(answer.status)
                self._seen.refused[name] = self._seen.refused.get(name, 0) + 1
            return None
        if is_counted:
            self._seen.committed += 1
            self._seen.latencies.record(now - began)
        return answer

    async def _ask(self, connection: Connection, request: bytes) -> Answer:
        for _ in range(proof_limits.BENCH_REPEATS_MAX):
            try:
                return await connection.ask(request)
            except ConnectionLostError:
                self._seen.lost_connections += 1
        return Answer(0, b"")

"""Commands through ``POST /v1/commands`` as fast as they go: several connections, each sends the next list at once.

A list of creates is followed by the list of their confirms. The loop is closed, so a latency is that of one list, and
the number that counts is committed commands per second.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compose.proof import limits as proof_limits
from compose.proof.bench.http.connection import Connection, ConnectionLostError
from compose.proof.bench.http.latency import Latencies
from compose.proof.bench.http.requests import confirm_line, create_line, read_lines
from ingress import limits as ingress_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.bench.http.requests import Requests

_DONE: Final = frozenset({200, 201})
_OK: Final = 200


@dataclass(slots=True)
class BulkRun:
    """What a run saw."""

    seconds: float = 0.0
    sent: int = 0  # with the warm-up
    sent_before: int = 0  # in the warm-up
    committed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    lost_connections: int = 0
    lists: Latencies = field(default_factory=Latencies)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPlan:
    """How the load runs."""

    seconds: float
    connections: int
    lines: int
    warm_up_s: float
    look: Callable[[], object]  # at what is spent: called when the warm-up is over, and when all is answered
    prefix: str


class BulkLoad:
    """One run against one ingress address."""

    def __init__(self, requests: Requests, host: str, port: int, plan: BulkPlan) -> None:
        self._requests = requests
        self._where = (host, port)
        self._plan = plan
        self._seen = BulkRun()
        self._counts_from = 0.0
        self._ends_at = 0.0

    async def run(self) -> BulkRun:
        """Sends lists until the time is over, and counts those that were answered within it."""
        self._counts_from = time.perf_counter() + self._plan.warm_up_s
        self._ends_at = self._counts_from + self._plan.seconds
        asyncio.get_running_loop().call_later(self._plan.warm_up_s, self._warm)
        await asyncio.gather(*(self._work(number) for number in range(self._plan.connections)))
        self._plan.look()
        self._seen.seconds = self._plan.seconds
        return self._seen

    def _warm(self) -> None:
        self._seen.sent_before = self._seen.sent
        self._plan.look()

    async def _work(self, worker: int) -> None:
        connection = Connection(*self._where)
        payments = 0
        try:
            while time.perf_counter() < self._ends_at:
                prefix = f"{self._plan.prefix}-{worker}"
                numbers = range(payments, payments + self._plan.lines)
                payments += self._plan.lines
                ids = await self._send(connection, [create_line(f"{prefix}-create-{n}", n) for n in numbers])
                confirms = [
                    confirm_line(f"{prefix}-confirm-{n}", intent_id)
                    for n, intent_id in zip(numbers, ids, strict=False)
                    if intent_id
                ]
                if confirms:
                    await self._send(connection, confirms)
        finally:
            connection.close()

    async def _send(self, connection: Connection, commands: list[dict[str, Any]]) -> list[str]:
        """The ids of the answers, '' where one was refused."""
        request = self._requests.lines(commands)
        self._seen.sent += len(commands)
        for _ in range(proof_limits.BENCH_REPEATS_MAX):
            began = time.perf_counter()
            try:
                answer = await connection.ask(request)
            except ConnectionLostError:
                self._seen.lost_connections += 1
                continue
            if answer.status != _OK:
                self._refuse(str(answer.status), len(commands), time.perf_counter())
                await asyncio.sleep(ingress_limits.CLIENT_BACKOFF_FIRST_MS / 1_000)
                return []
            return self._count(began, read_lines(answer.body))
        return []

    def _count(self, began: float, lines: list[tuple[int, str]]) -> list[str]:
        now = time.perf_counter()
        if self._counts_from <= now <= self._ends_at:
            self._seen.committed += sum(status in _DONE for status, _ in lines)
            self._seen.lists.record(now - began)
        for status, _ in lines:
            if status not in _DONE:
                self._refuse(str(status), 1, now)
        return [intent_id for _, intent_id in lines]

    def _refuse(self, status: str, count: int, now: float) -> None:
        if self._counts_from <= now <= self._ends_at:
            self._seen.refused[status] = self._seen.refused.get(status, 0) + count

"""Sends commands and waits for their decisions, within bounds.

The reply topic ends a wait. While it is silent, the stored result is asked for with a growing delay.
If this module lost an answer, a caller would only wait longer: the stored result is the truth.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Final

from ingress import limits
from ingress.commands.pending import Call, Pending
from ingress.commands.producer import CommandProducer
from ingress.commands.results import ResultsReader
from ingress.http import metrics
from schemas import errors, topics
from schemas.services import OPERATIONS

if TYPE_CHECKING:
    from ingress.commands.stored import Place, StoredResults
    from schemas import records
    from sinks.kafka.connection import KafkaConnection

_REPLY_ID_BITS: Final = 62
_MS: Final = 1_000


class Exchange:
    """One per process. ``start`` it on the loop that will use it.

    Without ``stored`` a wait on a silent reply topic lasts its whole time; the same identity finds the answer later.
    """

    def __init__(
        self, connection: KafkaConnection, instance: int, stored: StoredResults | None, name: str = "ingress"
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._name = name
        self._stored = stored
        self._waiting: dict[int, Pending] = {}
        self._in_flight: Counter[str] = Counter()
        #: true from the start, and after a call waited in vain, until a decision comes by the reply topic
        self.is_silent = True
        self._asking: set[asyncio.Task[None]] = set()
        self._heard = 0  # how many decisions came by the reply topic
        self._next_reply_id = secrets.randbits(_REPLY_ID_BITS)
        self._producer: CommandProducer | None = None
        self._results: ResultsReader | None = None

    @property
    def in_flight(self) -> int:
        """How many commands calls wait for."""
        return len(self._waiting)

    def start(self) -> None:
        """Connects to Kafka in the background."""
        loop, client_id = asyncio.get_running_loop(), f"millrace-{self._name}-{self._instance}"
        partition = self._instance % topics.RESULTS_PARTITIONS
        self._producer = CommandProducer(self._connection, client_id, loop)
        self._results = ResultsReader(self._connection, client_id, partition, loop, self._on_results)
        self._producer.start()
        self._results.start()

    async def close(self) -> None:
        """Flushes and disconnects."""
        if self._producer and self._results:
            await asyncio.to_thread(self._producer.close)
            await asyncio.to_thread(self._results.close)

    def drain(self) -> None:
        """Ends every wait for a decision: commands that Kafka holds are answered 202; their callers ask elsewhere."""
        if self._producer is not None:
            self._producer.take_reports()
        for call in {pending.call for pending in self._waiting.values()}:
            call.drain()

    async def check(self) -> None:
        """Raises Unavailable when commands cannot be sent or results not heard."""
        producer, results = self._connected()
        if not results.is_reading():
            raise errors.Unavailable("Results are not read any more.")
        await asyncio.to_thread(producer.check)

    async def carry_out(
        self, commands: list[records.Command], wait_s: float, *, only_acknowledged: bool, bulk: bool
    ) -> list[Pending]:
        """Sends the commands in order and waits until all are decided (or acknowledged) or the time is over.

        Raises Overloaded, QuotaExceeded or Unavailable before anything is sent.
        """
        producer, results = self._connected()
        merchant = commands[0].scope
        self._admit(merchant, len(commands), bulk=bulk)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = Call(commands, done, only_acknowledged=only_acknowledged)
        self._in_flight[merchant] += len(commands)
        for pending in call.pendings:
            self._next_reply_id += 1
            pending.command.reply_to = results.partition
            pending.command.reply_id = self._next_reply_id
            self._waiting[self._next_reply_id] = pending
        metrics.IN_FLIGHT.inc(len(commands))
        started_at = asyncio.get_running_loop().time()
        try:
            for n, pending in enumerate(call.pendings, 1):
                producer.send(pending, is_awaited=only_acknowledged)
                if n % limits.COMMANDS_PER_TURN == 0:
                    await asyncio.sleep(0)  # single commands must not wait for a long list
            await self._wait(call, wait_s, producer, None if only_acknowledged else self._stored)
        finally:
            metrics.IN_FLIGHT.dec(len(commands))
            metrics.DECISION_SECONDS.observe(asyncio.get_running_loop().time() - started_at)
            for pending in call.pendings:
                del self._waiting[pending.command.reply_id]
            self._in_flight[merchant] -= len(commands)
            if not self._in_flight[merchant]:
                del self._in_flight[merchant]
        return call.pendings

    async def _wait(self, call: Call, wait_s: float, producer: CommandProducer, stored: StoredResults | None) -> None:
        """Waits until all is decided or the time is over.

        A silent reply topic is noticed soon. While it brings decisions of other commands, this one is only slow, and
        asking for it would make all slower.
        """
        loop = asyncio.get_running_loop()
        began_at, heard = loop.time(), self._heard
        ends_at = began_at + wait_s
        delay_s = limits.RESULT_STORE_POLL_FIRST_MS / _MS
        while not call.done.done() and (left_s := ends_at - loop.time()) > 0:
            await asyncio.wait((call.done,), timeout=min(left_s, delay_s) if stored else left_s)
            if call.done.done():
                return
            producer.take_reports()  # the answer depends on whether Kafka has the command
            if stored is None:
                continue
            if self._heard == heard:
                self.is_silent = True
            elif (slow_s := began_at + limits.RESULT_STORE_POLL_SLOW_MS / _MS - loop.time()) > 0 and left_s > delay_s:
                delay_s = slow_s
                continue
            heard = self._heard
            await self._asked_store(stored, call, ends_at - loop.time())
            delay_s = min(2 * delay_s, limits.RESULT_STORE_POLL_MAX_MS / _MS)

    async def _asked_store(self, stored: StoredResults, call: Call, within_s: float) -> None:
        """Asks the database, and goes on when the call is over: one that is stopped does not answer.

        What is still asked then ends by itself, within the store's own bound: to cancel it would cost a connection.
        """
        asking = asyncio.create_task(self._ask_store(stored, [p for p in call.pendings if p.open]))
        self._asking.add(asking)  # else nobody would hold it when its call has ended
        asking.add_done_callback(self._asking.discard)
        await asyncio.wait((asking, call.done), timeout=max(within_s, 0), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()

    async def _ask_store(self, stored_results: StoredResults, pendings: list[Pending]) -> None:
        """Takes decisions from the database. If it is out, the wait goes on."""
        try:
            if len(pendings) == 1:
                command = pendings[0].command
                found = [await stored_results.find((command.scope, command.idempotency_key))]
            else:
                found = await stored_results.find_all([(p.command.scope, p.command.idempotency_key) for p in pendings])
            for pending, stored in zip(pendings, found, strict=True):
                if stored is not None:
                    pending.decided_by_store(stored)
                    metrics.FOUND_IN_STORE.inc()
            await self._ask_dead_letters(stored_results, [p for p in pendings if p.open])
        except errors.Unavailable:
            return

    async def _ask_dead_letters(self, stored_results: StoredResults, pendings: list[Pending]) -> None:
        sent: list[tuple[Pending, Place]] = [
            (p, (OPERATIONS[p.command.operation].topic, *p.place)) for p in pendings if p.place is not None
        ]
        for n in await stored_results.parked([place for _, place in sent]):
            sent[n][0].decided_parked()

    def _admit(self, merchant: str, count: int, *, bulk: bool) -> None:
        """Bounds commands in flight and sheds bulk work first. Rule: low-priority work is shed under load, spec 1.8."""
        bound = limits.COMMANDS_IN_FLIGHT_BULK_MAX if bulk else limits.COMMANDS_IN_FLIGHT_MAX
        if len(self._waiting) + count > bound:
            raise errors.Overloaded
        if self._in_flight[merchant] + count > limits.COMMANDS_IN_FLIGHT_MERCHANT_MAX:
            raise errors.QuotaExceeded("Too many commands of this merchant are in flight.")

    def _on_results(self, results: list[records.Result]) -> None:
        for result in results:
            pending = self._waiting.get(result.reply_id)
            if pending is not None:
                self.is_silent = False
                self._heard += 1
                pending.decided(result.outcome, result.body, replayed=result.replayed)

    def _connected(self) -> tuple[CommandProducer, ResultsReader]:
        if self._producer is None or self._results is None or not self._results.ready:
            raise errors.Unavailable("Kafka is not reached yet; try again with the same identity.")
        return self._producer, self._results

"""The processor-attempt worker: events in, one operation at the processor per attempt, facts out.

The order that makes it safe, for every attempt:
1. its dispatch row is durable and leased, committed before any I/O;
2. the position behind its event is stored only after that;
3. the processor is called under the attempt's operation_id, queried first whenever a send may have arrived;
4. the fact is durable in Kafka (acks=all) before the row says so;
5. the row is done when the owner's event says so, and the fact is told again when that takes too long.
Killed anywhere in between, the lease runs out and the next worker goes on at 3. Any number of workers may run.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from dataflows.owner import fail_points
from dataflows.payments.attempts.lane import ProcessorLane
from dataflows.payments.attempts.recorder import Recorder
from dataflows.payments.attempts.settlement import settle
from dataflows.payments.attempts.statement_retry import StatementRetry
from schemas.errors import Unavailable
from schemas.payments import limits
from sinks import cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from dataflows.payments.attempts.adapter import ProcessorAdapter
    from dataflows.payments.attempts.dispatch import AttemptLease, Change
    from dataflows.payments.attempts.dispatch_store import DispatchStore
    from dataflows.payments.attempts.event_reader import AttemptEventReader
    from dataflows.payments.attempts.fact_producer import FactProducer
    from dataflows.payments.attempts.facts import Fact
    from dataflows.payments.attempts.health import Health
    from dataflows.payments.attempts.metrics import AttemptMetrics

log = structlog.get_logger()


class AttemptWorker:
    """One worker over an open store, reader and producer, which their maker closes."""

    def __init__(
        self,
        *,
        store: DispatchStore,
        reader: AttemptEventReader,
        producer: FactProducer,
        adapters: Iterable[ProcessorAdapter],
        metrics: AttemptMetrics,
    ) -> None:
        self._store = store
        self._reader = reader
        self._producer = producer
        self._metrics = metrics
        self._lanes = {adapter.name: ProcessorLane(adapter, metrics) for adapter in adapters}
        self._stop = asyncio.Event()
        self._wake_sweep = asyncio.Event()
        self._retried = StatementRetry(self._stop, metrics)
        self._recorder = Recorder(store, self._retried)
        self._tasks: set[asyncio.Task[None]] = set()
        self._give_up_at: dict[str, float] = {}
        self._worked_at = time.monotonic()
        self._looks_for_late_facts = True
        self._group = asyncio.TaskGroup()
        self._is_drained = False

    def why_not_ready(self) -> str | None:
        """None while the worker reaches its database and follows every partition that was given to it."""
        if not self._retried.is_reachable:
            return "Postgres is away"
        return self._reader.why_not_ready()

    def stop(self) -> None:
        """Takes and leases nothing more; ``run`` returns when the calls in flight have ended or a bound is past."""
        self._stop.set()
        self._wake_sweep.set()

    async def run(self) -> None:
        """Works until ``stop``. Raises an ExceptionGroup when a loop fails; what was leased is then queried later."""
        async with self._group as group:
            intake = [
                group.create_task(self._until_stop(loop))
                for loop in (self._ingest, self._sweep, self._repeat, self._prune, self._measure, self._tell_health)
            ]
            group.create_task(self._recorder.run(lambda: self._is_drained))
            await self._stop.wait()
            if not self._retried.is_reachable:  # they would wait for it; what was leased without our knowing runs out
                await cancelled.over(*intake)
            await asyncio.wait(intake)
            await self._drain()
            self._is_drained = True
            self._recorder.wake()
        for lane in self._lanes.values():
            await lane.adapter.close()

    async def _until_stop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One loop of the intake. Told to stop without a database it loses nothing: another worker does its work."""
        with suppress(Unavailable):
            await loop()

    async def _drain(self) -> None:
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=limits.ATTEMPT_DRAIN_TIMEOUT_S)
        if late:
            log.warning("attempts_left_in_doubt", count=len(late))  # their leases run out and they are queried
        for task in late:
            task.cancel()

    async def _ingest(self) -> None:
        while not self._stop.is_set():
            batch = await self._reader.read()
            if batch.changes:
                await self._take(batch.changes)
            self._reader.mark_durable(batch)

    async def _take(self, changes: Sequence[Change]) -> None:
        leased = self._reserved(changes)
        leases = await self._retried("take", lambda: self._store.take(changes, leased.keys()))
        self._recorder.settled(c.call.operation_id for c in changes if c.wish != "carry_out")
        started = {lease.call.operation_id for lease in leases}
        for operation_id, lane in leased.items():
            if operation_id not in started:  # known before: the event came a second time
                lane.release()
        self._start(leases)
        self._sweep_when_worth_it()

    def _reserved(self, changes: Sequence[Change]) -> dict[str, ProcessorLane]:
        """The attempts to be leased at once, each with a slot of its lane reserved; the others wait for a sweep."""
        leased: dict[str, ProcessorLane] = {}
        wanted = Counter(c.processor for c in changes if c.wish == "carry_out" and c.processor in self._lanes)
        free = {name: self._lanes[name].reserve_new(count) for name, count in wanted.items()}
        for change in changes:
            lane = self._lanes.get(change.processor)
            if change.wish != "carry_out" or lane is None:  # no adapter here: another worker sweeps it
                continue
            if free[lane.name] > 0:
                free[lane.name] -= 1
                leased[change.call.operation_id] = lane
            else:
                lane.has_backlog = True
        return leased

    async def _sweep(self) -> None:
        while not self._stop.is_set():
            is_idle = time.monotonic() - self._worked_at > limits.ATTEMPT_IDLE_AFTER_S
            due = await self._retried("due", lambda: self._store.due(self._lanes.keys())) if is_idle else None
            self._looks_for_late_facts = due is None or due.has_late_facts
            for lane in self._lanes.values():
                await self._sweep_lane(lane, has_due=due is None or lane.name in due.processors)
            interval_ms = limits.ATTEMPT_SWEEP_IDLE_INTERVAL_MS if is_idle else limits.ATTEMPT_SWEEP_INTERVAL_MS
            if await self._waited(interval_ms, self._wake_sweep):
                self._wake_sweep.clear()

    async def _sweep_lane(self, lane: ProcessorLane, *, has_due: bool) -> None:
        if lane.wants_probe():
            self._spawn(lane.probe())
        await self._give_up(lane)
        if not (has_due or lane.has_backlog):
            return
        count = lane.reserve(limits.ATTEMPT_CALLS_IN_FLIGHT_MAX)
        if not count:
            return
        leases = await self._retried("lease", lambda: self._store.lease(lane.name, count))
        lane.has_backlog = len(leases) == count
        lane.release(count - len(leases))
        self._start(leases)

    async def _give_up(self, lane: ProcessorLane) -> None:
        """What never left us and waited for too long has failed: decided in the table first, then told."""
        now = time.monotonic()
        if not lane.is_away and now < self._give_up_at.get(lane.name, 0.0):
            return
        self._give_up_at[lane.name] = now + limits.ATTEMPT_GIVE_UP_INTERVAL_S
        is_away = lane.is_away
        facts = await self._retried("give up", lambda: self._store.give_up(lane.name, is_away=is_away))
        if facts:
            fail_points.reach("attempt_after_give_up")
        for fact in facts:
            self._spawn(self._told_again(fact))

    def _sweep_when_worth_it(self) -> None:
        if any(lane.is_worth_a_sweep for lane in self._lanes.values()):
            self._wake_sweep.set()

    def _start(self, leases: Sequence[AttemptLease]) -> None:
        if leases:
            self._worked_at = time.monotonic()
            fail_points.reach("attempt_after_lease")
        for lease in leases:
            self._spawn(self._carry_out(self._lanes[lease.processor], lease))

    async def _carry_out(self, lane: ProcessorLane, lease: AttemptLease) -> None:
        try:
            answer = await lane.turn(lease)
        finally:
            lane.release()
        self._sweep_when_worth_it()
        if answer is None:
            return
        fail_points.reach("attempt_after_answer_before_report")
        settlement = settle(lease, answer, time.monotonic(), random.random())
        if settlement.fact is not None and not await self._producer.produce(settlement.fact):
            return  # the row stays leased: when the lease is over the processor is asked again
        fail_points.reach("attempt_after_report")
        self._recorder.add(settlement.record)

    async def _repeat(self) -> None:
        while not self._stop.is_set():
            late = await self._retried("repeat", self._store.repeat) if self._looks_for_late_facts else []
            for fact in late:
                self._metrics.facts_repeated.inc()
                self._spawn(self._told_again(fact))
            await self._waited(limits.ATTEMPT_REPEAT_INTERVAL_MS, self._stop)

    async def _told_again(self, fact: Fact) -> None:
        await self._producer.produce(fact)  # whether it was taken or not, the row is due again by its schedule

    async def _prune(self) -> None:
        while not self._stop.is_set():
            pruned = await self._retried("prune", self._store.prune)
            self._metrics.pruned.inc(pruned)
            if pruned < limits.ATTEMPT_PRUNE_BATCH_MAX:
                await self._waited(limits.ATTEMPT_PRUNE_INTERVAL_S * 1_000, self._stop)

    async def _measure(self) -> None:
        while not self._stop.is_set():
            for state, (count, age_s) in (await self._retried("backlog", self._store.backlog)).items():
                self._metrics.backlog.labels(state).set(count)
                self._metrics.oldest_seconds.labels(state).set(age_s)
            await self._retried("end reviews", self._store.end_reviews)
            await self._waited(limits.ATTEMPT_BACKLOG_INTERVAL_S * 1_000, self._stop)

    async def _tell_health(self) -> None:
        told: dict[str, Health] = {}
        repeat_at = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            healths = [lane.health() for lane in self._lanes.values()]
            new = healths if now >= repeat_at else [h for h in healths if told.get(h.processor) != h]
            if new:
                await self._retried("health", partial(self._store.tell_health, new))
                told |= {health.processor: health for health in new}
            if now >= repeat_at:
                repeat_at = now + limits.PROCESSOR_HEALTH_REPEAT_S
            await self._waited(limits.PROCESSOR_HEALTH_INTERVAL_MS, self._stop)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _waited(self, interval_ms: int, event: asyncio.Event) -> bool:
        """True when the event came within the interval."""
        try:
            async with asyncio.timeout(interval_ms / 1_000):
                return await event.wait()
        except TimeoutError:
            return False

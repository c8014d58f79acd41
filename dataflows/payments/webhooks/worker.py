"""The webhook worker: events of the inbox in, facts out, until the owner has decided each; and a clock for holds.

The order that makes it safe, for every round:
1. due events are claimed: they are due again a little later, whatever happens to this process;
2. each is read and held against what is committed: payments, attempts, decisions on the same fact;
3. facts whose attempt can be seen are durable in Kafka (acks=all) before any row says so;
4. states are written; what was told is looked at again until the owner's decision is there.
Killed anywhere, the next round does the same again under the same identities. Any number of workers may run.
"""

from __future__ import annotations

import random
import time

import psycopg
import structlog

from dataflows.owner import fail_points
from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.fact_producer import WebhookFactProducer
from dataflows.payments.webhooks.inbox_store import InboxStore
from dataflows.payments.webhooks.metrics import WebhookMetrics
from dataflows.payments.webhooks.releases import ReleaseTurn
from dataflows.payments.webhooks.steps import Due, Step, next_step
from schemas.payments import limits

log = structlog.get_logger()
_STATES = ("stored", "parked")


class WebhookWorker:
    """One worker over a store and a producer, which their maker closes."""

    def __init__(self, *, store: InboxStore, producer: WebhookFactProducer, metrics: WebhookMetrics) -> None:
        self._store = store
        self._producer = producer
        self._metrics = metrics
        self._is_stopping = False
        self._measure_at = 0.0
        self._releases = ReleaseTurn()
        self._release_at = 0.0
        self._give_up_at = 0.0
        self._prune_at = 0.0
        self._claimed_at = 0.0
        self.is_ready = False

    def stop(self) -> None:
        """``run`` returns after the round that is under way."""
        self._is_stopping = True  # a signal handler may do this much and no more

    def run(self) -> None:
        """Works until ``stop``; waits out an absent database. Raises KafkaException when the producer cannot go on."""
        failures = 0
        while not self._is_stopping:
            try:
                claimed = self.round()
                self._release()
                self._measure()
                self._prune()
            except psycopg.OperationalError as error:
                failures += 1
                self._database_failed(error, failures)
                continue
            failures = 0
            self.is_ready = True
            if claimed < limits.WEBHOOK_CLAIM_MAX:
                time.sleep(self._pause_ms(claimed) / 1_000)

    def _pause_ms(self, claimed: int) -> int:
        """Webhooks come in crowds: the inbox is looked at less often when none came for a while."""
        now = time.monotonic()
        if claimed:
            self._claimed_at = now
        is_idle = now - self._claimed_at > limits.WEBHOOK_IDLE_AFTER_S
        return limits.WEBHOOK_ROUND_IDLE_INTERVAL_MS if is_idle else limits.WEBHOOK_ROUND_INTERVAL_MS

    def round(self) -> int:
        """One claim and everything that follows from it; how many events it was. May be cut short anywhere."""
        claimed = self._store.claim()
        if not claimed:
            return 0
        fail_points.reach("webhook_after_claim")
        read = [(due, vocabulary.read(due.processor, due.event_type, due.body)) for due in claimed]
        findings = self._store.with_payments(read)
        seen = self._store.look_up(findings)
        issued_at = time.time_ns() // 1_000
        steps = [(due, next_step(due, found, seen, issued_at)) for due, found in findings]
        done = self._told(steps)
        fail_points.reach("webhook_after_tell")
        self._store.record(done)
        fail_points.reach("webhook_after_record")
        for due, step in done:
            self._metrics.steps.labels(step.state).inc()
            if step.case is not None:
                log.warning("webhook_case", kind=step.case.kind, processor=due.processor, note=step.note)
        return len(claimed)

    def _told(self, steps: list[tuple[Due, Step]]) -> list[tuple[Due, Step]]:
        """The steps that may be written down: those whose command, if any, is durable."""
        # Several events of one fact make one command.
        commands = {step.command.request_id: step.command for _, step in steps if step.command is not None}
        if not commands:
            return steps
        durable = self._producer.produce(list(commands.values()))
        self._metrics.untold.inc(len(commands) - len(durable))
        return [(due, step) for due, step in steps if step.command is None or step.command.request_id in durable]

    def _release(self) -> None:
        """Asks for the release of overdue holds, again for what is not durable; in the end a person is told."""
        now = time.monotonic()
        if now < self._release_at:
            return
        self._release_at = now + limits.AUTHORIZATION_RELEASE_INTERVAL_S
        issued_at = time.time_ns() // 1_000
        commands = self._releases.commands(self._store.holds_overdue(self._releases.after), issued_at)
        if commands:
            self._releases.told(self._producer.produce(commands))
            log.info("overdue_holds_to_be_released", count=len(commands))
        if now >= self._give_up_at:
            self._give_up_at = now + limits.AUTHORIZATION_GIVE_UP_INTERVAL_S
            for operation_id in self._store.give_up_holds():
                log.warning("hold_not_released", operation_id=operation_id)

    def _measure(self) -> None:
        now = time.monotonic()
        if now < self._measure_at:
            return
        self._measure_at = now + limits.WEBHOOK_BACKLOG_INTERVAL_S
        backlog = self._store.backlog()
        for state in _STATES:
            count, age_s = backlog.get(state, (0, 0.0))
            self._metrics.backlog.labels(state).set(count)
            self._metrics.oldest_seconds.labels(state).set(age_s)

    def _prune(self) -> None:
        """Old events go a batch a round for as long as there are whole batches: more may come than a bound lets go."""
        now = time.monotonic()
        if now < self._prune_at:
            return
        pruned = self._store.prune()
        self._metrics.pruned.inc(pruned)
        is_full = pruned >= limits.PROVIDER_EVENTS_PRUNE_BATCH_MAX
        self._prune_at = now if is_full else now + limits.PROVIDER_EVENTS_PRUNE_INTERVAL_S

    def _database_failed(self, error: psycopg.OperationalError, failures: int) -> None:
        self.is_ready = False
        self._metrics.store_errors.inc()
        self._store.close()
        log.warning("webhook_store_unavailable", error=str(error).partition("\n")[0])
        ceiling = limits.WEBHOOK_POSTGRES_BACKOFF_FIRST_MS << min(failures, limits.WEBHOOK_BACKOFF_DOUBLINGS_MAX)
        wait_ms = min(ceiling, limits.WEBHOOK_POSTGRES_BACKOFF_MAX_MS) * random.uniform(0.5, 1)
        time.sleep(wait_ms / 1_000)

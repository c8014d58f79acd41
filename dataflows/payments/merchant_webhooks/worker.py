"""The sender of webhooks to merchants: a thread that plans, a loop that claims, a pool of threads that send.

At least once: a delivery is claimed (durable) before it is sent and marked after it. Killed in between, it is sent
again when its lease is over, under the same webhook-id, by which a receiver knows it. Any number of processes may
run: rows are claimed with locks that others skip, and a mark counts only for the try that was claimed.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import structlog

from dataflows.owner import fail_points
from dataflows.payments.merchant_webhooks import schedule
from dataflows.payments.merchant_webhooks.intake import Intake
from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.sender import Answer, Sender
from dataflows.payments.merchant_webhooks.store import Claim, DeliveryStore
from schemas.payments import limits

log = structlog.get_logger()


class MerchantWebhookWorker:
    """One process over a store, which its maker closes."""

    def __init__(
        self, *, store: DeliveryStore, intake: Intake, sender: Sender, metrics: MerchantWebhookMetrics
    ) -> None:
        self._store = store
        self._intake = intake
        self._sender = sender
        self._metrics = metrics
        self._is_stopping = False
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()  # by endpoint
        self._of_merchant: Counter[str] = Counter()  # the same, by merchant
        self._tidy_at = 0.0
        self._prune_at = 0.0
        self._changed = threading.Event()  # there is something new to send, or room for it
        self._is_reachable = False  # Postgres, in the last round

    def why_not_ready(self) -> str | None:
        """None while it reaches its database and follows every partition that was given to it; any thread may ask."""
        return self._intake.why_not_ready() if self._is_reachable else "Postgres is away"

    def stop(self) -> None:
        """``run`` returns when the sends under way have ended."""
        self._is_stopping = True  # a signal handler may do this much and no more

    def run(self) -> None:
        """Works until ``stop``; waits out absent servers. Raises RuntimeError when the reading thread failed."""
        stop_reading = threading.Event()
        reading = threading.Thread(target=self._intake.run, args=(stop_reading, self._changed), name="intake")
        reading.start()
        try:
            with ThreadPoolExecutor(limits.MERCHANT_WEBHOOK_SENDS_MAX, thread_name_prefix="send") as pool:
                while not self._is_stopping and reading.is_alive():
                    if pause_ms := self._round(pool):
                        self._changed.wait(pause_ms / 1_000)
            if not self._is_stopping:
                raise RuntimeError("the reading thread ended")  # the supervisor starts this process again
        finally:
            stop_reading.set()
            reading.join()

    def _round(self, pool: ThreadPoolExecutor) -> int:
        """Claims what there is room for; how long to wait before the next round, unless something changes."""
        self._changed.clear()
        with self._lock:
            free = limits.MERCHANT_WEBHOOK_SENDS_MAX - self._in_flight.total()
            most = limits.MERCHANT_WEBHOOK_SENDS_ENDPOINT_MAX
            busy = [endpoint for endpoint, count in self._in_flight.items() if count >= most]
            sends = dict(self._of_merchant)
        try:
            self._tidy()
            claims = self._store.claim(free, busy, sends) if free > 0 else []
        except psycopg.OperationalError as error:
            self._is_reachable = False
            self._metrics.outages.inc()
            log.warning("merchant_webhook_store_unavailable", error=str(error).partition("\n")[0])
            return limits.MERCHANT_WEBHOOK_BACKOFF_MS
        self._is_reachable = True
        self._begin(claims)
        for claim in claims:
            pool.submit(self._deliver, claim).add_done_callback(_tell_failure)
        return 0 if claims else limits.MERCHANT_WEBHOOK_CLAIM_INTERVAL_MS

    def _begin(self, claims: Sequence[Claim]) -> None:
        with self._lock:
            self._in_flight.update(claim.endpoint_id for claim in claims)
            self._of_merchant.update(claim.merchant_id for claim in claims)
        if claims:
            fail_points.reach("merchant_webhook_after_claim")

    def _deliver(self, claim: Claim) -> None:
        try:
            secrets, now = self._store.secrets(claim.endpoint_id)
            if not secrets:
                return  # the endpoint was deleted meanwhile
            answer = self._sender.send(claim.url, claim.event_id, claim.body, secrets, now)
            fail_points.reach("merchant_webhook_after_send")
            self._mark(claim, answer)
        except psycopg.OperationalError as error:
            # The lease runs out and it is sent again, with the same webhook-id.
            self._metrics.outages.inc()
            log.warning("merchant_webhook_not_marked", delivery=claim.id, error=str(error).partition("\n")[0])
        finally:
            self._ended(claim)

    def _ended(self, claim: Claim) -> None:
        with self._lock:
            for counted, name in ((self._in_flight, claim.endpoint_id), (self._of_merchant, claim.merchant_id)):
                counted[name] -= 1
                if not counted[name]:
                    del counted[name]
        self._changed.set()

    def _mark(self, claim: Claim, answer: Answer) -> None:
        if answer.status is not None and schedule.is_taken(answer.status):
            self._store.delivered(claim, answer.status)
            self._metrics.tries.labels("delivered").inc()
            return
        is_gone = answer.status == schedule.GONE
        wait_s = None if is_gone else schedule.wait_s(claim.tries, random.random())
        is_disabled = self._store.failed(claim, wait_s, answer.status, answer.error or "refused", is_gone=is_gone)
        self._metrics.tries.labels("given_up" if wait_s is None else "retry").inc()
        if is_disabled:
            self._metrics.disabled.inc()
            log.warning("merchant_webhook_endpoint_disabled", endpoint=claim.endpoint_id)

    def _tidy(self) -> None:
        """What is done once a minute; old deliveries go a batch a round for as long as there are whole batches."""
        now = time.monotonic()
        if now >= self._tidy_at:
            self._store.seal_secrets()  # first: nothing is sent with a secret that is still a text
            self._store.end_leftovers()
            self._tidy_at = now + limits.MERCHANT_WEBHOOK_PRUNE_INTERVAL_S
        if now >= self._prune_at:
            is_full = self._store.prune() >= limits.MERCHANT_WEBHOOK_PRUNE_BATCH_MAX
            self._prune_at = now if is_full else now + limits.MERCHANT_WEBHOOK_PRUNE_INTERVAL_S


def _tell_failure(done: Future[None]) -> None:
    """A bug in one delivery stops no other; its lease runs out and it is tried again."""
    if (error := done.exception()) is not None:
        log.error("merchant_webhook_delivery_crashed", exc_info=error)

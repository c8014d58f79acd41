"""Reads the stream of events into deliveries.

The order that makes it safe: the rows of events and the position behind them go to Postgres in one transaction, which
is refused when another process has taken the partition. So every event is planned exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import structlog

from schemas import errors
from schemas.payments import limits as payments_limits
from schemas.payments import topics
from sinks.streams.follower import Followed

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
    from dataflows.payments.merchant_webhooks.store import DeliveryStore
    from sinks.streams.follower import Follower
    from sinks.streams.positions import Taken

FOLLOWED: Final = Followed(
    follower="merchant_webhooks",
    topic=topics.EVENTS,
    group="merchant-webhooks",
    gather_ms=payments_limits.MERCHANT_WEBHOOK_GATHER_MS,
)
log = structlog.get_logger()


class Intake:
    """The reading thread of one process; several processes share the partitions."""

    def __init__(self, store: DeliveryStore, follower: Follower, metrics: MerchantWebhookMetrics) -> None:
        self._store = store
        self._follower = follower
        self._metrics = metrics

    def why_not_ready(self) -> str | None:
        """None while every partition that is ours goes on; otherwise what is to be done."""
        return self._follower.why_not_ready()

    def run(self, stop: threading.Event, planned: threading.Event) -> None:
        """Reads until ``stop``, and sets ``planned`` when there is something new to send; waits out absent servers."""
        timeout_s = payments_limits.MERCHANT_WEBHOOK_READ_TIMEOUT_MS / 1_000
        while not stop.is_set():
            if taken := self._follower.read(payments_limits.MERCHANT_WEBHOOK_EVENTS_BATCH_MAX, timeout_s):
                self._keep(taken, stop, planned)
        self._follower.close()

    def _keep(self, taken: Sequence[Taken], stop: threading.Event, planned: threading.Event) -> None:
        events = [accepted.event for one in taken for accepted in one.events]
        while not stop.is_set():
            try:
                count = self._store.keep(events, lambda connection: self._follower.advance(connection, taken))
            except errors.Fenced as error:  # what was read here is another process's business
                self._follower.begin_again(error)
                return
            except psycopg.OperationalError as error:
                self._metrics.outages.inc()
                log.warning("merchant_webhook_intake_waits", error=str(error).partition("\n")[0])
                stop.wait(payments_limits.MERCHANT_WEBHOOK_BACKOFF_MS / 1_000)
            else:
                self._metrics.planned.inc(count)
                if count:
                    planned.set()
                return

"""Reads the stream of events into deliveries, in the one process that holds the stream.

The order that makes it safe: the position comes from Postgres, the rows and the new position go there in one
transaction that first compares the epoch. Kafka keeps no offset for us. A repeated, late or reordered event has another
``seq`` than last + 1 and is dropped.
"""

from __future__ import annotations

import threading
import time

import psycopg
import structlog
from confluent_kafka.cimpl import KafkaException

from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.store import DeliveryStore, LostReader
from schemas import errors, limits
from schemas.payments import topics
from sinks.clickhouse.stream import EventReader

log = structlog.get_logger()
_OUTAGES = (psycopg.OperationalError, errors.Unavailable, KafkaException)


class Intake:
    """The reading thread of one process; it stands by while another process reads."""

    def __init__(self, store: DeliveryStore, reader: EventReader, metrics: MerchantWebhookMetrics) -> None:
        self._store = store
        self._reader = reader
        self._metrics = metrics
        self._epoch: int | None = None
        self._renew_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Reads until ``stop``; waits out absent servers."""
        while not stop.is_set():
            try:
                if self._epoch is None and not self._begin():
                    stop.wait(limits.MERCHANT_WEBHOOK_READ_TIMEOUT_MS / 1_000)
                    continue
                self._round()
            except LostReader:
                log.warning("merchant_webhook_stream_lost")
                self._epoch = None
            except _OUTAGES as error:
                self._metrics.outages.inc()
                log.warning("merchant_webhook_intake_waits", error=str(error).partition("\n")[0])
                self._epoch = None  # reads again from the stored position
                stop.wait(limits.MERCHANT_WEBHOOK_BACKOFF_MS / 1_000)
        self._end()

    def _begin(self) -> bool:
        self._epoch = self._store.claim_reader()
        if self._epoch is None:
            return False
        # In a later statement than the claim: nobody of an older epoch can move them any more.
        self._reader.assign(self._store.positions(range(topics.PARTITIONS)))
        return True

    def _round(self) -> None:
        if self._epoch is None:
            return
        timeout_s = limits.MERCHANT_WEBHOOK_READ_TIMEOUT_MS / 1_000
        taken = self._reader.read(limits.MERCHANT_WEBHOOK_EVENTS_BATCH_MAX, timeout_s)
        for unreadable in self._reader.intake.unreadable:
            self._metrics.unreadable.inc()
            log.error("event_unreadable", partition=unreadable.partition, offset=unreadable.offset)
        self._reader.intake.unreadable.clear()
        if not taken and time.monotonic() < self._renew_at:
            return  # nothing to write, and the lease holds
        self._renew_at = time.monotonic() + limits.MERCHANT_WEBHOOK_READER_LEASE_S / 4
        planned = self._store.keep(self._epoch, [accepted.event for accepted in taken], self._reader.positions)
        self._metrics.planned.inc(planned)

    def _end(self) -> None:
        if self._epoch is not None:
            try:
                self._store.release_reader(self._epoch)
            except psycopg.OperationalError as error:  # then the lease runs out
                log.warning("merchant_webhook_stream_not_released", error=str(error).partition("\n")[0])
        self._reader.close()

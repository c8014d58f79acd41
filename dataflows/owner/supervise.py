"""Keeps an owner running: starts over after lost ownership or a lost server, stops loudly for a bug.

The main thread belongs to the loop; SIGTERM sets ``stop`` and the loop drains.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import psycopg
import structlog
from confluent_kafka import KafkaException

from dataflows import limits
from dataflows.owner.drivers import Driver, runner
from dataflows.owner.metrics import PARTITIONS_OWNED, RESTARTS
from dataflows.owner.process import OwnerProcess
from dataflows.owner.senders import Keys
from dataflows.owner.service import OwnedService
from dataflows.owner.transaction.size import TransactionSize
from schemas.errors import OwnershipLost
from sinks.kafka.connection import KafkaConnection

_PASSING: Final = (OwnershipLost, psycopg.OperationalError, psycopg.InterfaceError, KafkaException)
log = structlog.get_logger()


def supervise(
    kafka: KafkaConnection,
    dsn: str,
    service: OwnedService,
    owner_id: str,
    stop: threading.Event,
    keys: Keys,
    *,
    driver: Driver = "bytewax",
    group: str | None = None,
    on_start: Callable[[OwnerProcess], None] | None = None,
    on_failure: Callable[[str], None] | None = None,
) -> None:
    """Owns partitions until ``stop`` is set, then drains and returns.

    Raises every error that is not a passing one. Passing errors are retried for ever with jittered backoff, so that
    nobody has to act when a database is back. A broken invariant halts only its partition, for every owner.
    ``on_failure`` hears what each passing error says.
    """
    failures, size, named = 0, TransactionSize(), group or service.declared.owner_group
    while not stop.is_set():
        process = None
        try:
            process = OwnerProcess(kafka, dsn, service, owner_id, named, stop, keys, size)
            if on_start is not None:
                on_start(process)
            PARTITIONS_OWNED.set_function(partial(_owned, process))
            runner(driver)(process)
            failures = 0
        except _PASSING as error:
            failures += 1
            RESTARTS.labels(type(error).__name__).inc()
            log.warning("owner_restarts", cause=type(error).__name__, error=str(error).strip(), failures=failures)
            if on_failure is not None:
                on_failure(str(error).strip())
        finally:
            if process is not None:
                _close(process)
        if failures and not stop.is_set():
            stop.wait(_backoff_s(failures))


def _close(process: OwnerProcess) -> None:
    """Closes everything. A server that goes away meanwhile does not end the owner for good."""
    try:
        process.close()
    except _PASSING as error:
        log.warning("owner_left_uncleanly", cause=type(error).__name__, error=str(error).strip())


def _owned(process: OwnerProcess) -> float:
    return len(process.leases.all())


def _backoff_s(failures: int) -> float:
    ceiling_ms = min(limits.OWNER_DATABASE_BACKOFF_MAX_MS, 50 * 2 ** min(failures, 10))
    return random.uniform(ceiling_ms / 2, ceiling_ms) / 1_000

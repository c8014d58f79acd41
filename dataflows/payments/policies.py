"""The policies that an owner decides by, kept fresh beside the dataflow: read at start, then once a second.

An owner decides nothing before it has read what is published (``wait``): a restart is no way around a rule.
A decision takes whatever ``current`` is, without waiting. When Postgres does not answer, the last good policies stay:
an owner that cannot reach Postgres commits nothing either. When it is back the owner takes its partitions anew, and for
each it asks that what was read is ``recent``: the rounds may find Postgres a moment after the lanes do. A policy that
cannot be read (a newer build published it) also leaves the last good one of its kind in force, and is logged once for
every version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
import psycopg
import structlog
from msgspec import structs

from dataflows.payments.domain import routing
from dataflows.payments.domain.policies import fees, risk
from dataflows.payments.domain.policies.fees import FeeVersion
from dataflows.payments.domain.policies.in_force import (
    NOTHING_PUBLISHED,
    Policies,
    ProcessorHealth,
    PublishedRates,
    read_rates,
)
from dataflows.payments.domain.policies.risk import RiskPolicy
from schemas.payments import limits
from schemas.payments.policies.routing import RoutingPolicy
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.payments", "policies.sql")
P = TypeVar("P", RiskPolicy, RoutingPolicy, PublishedRates)
_HEALTH_FIELDS: Final = ProcessorHealth.__struct_fields__
_log: Final = structlog.get_logger(__name__)


class PolicyBook:
    """The newest policies of one process. ``current`` may be read from any thread; only ``refresh`` replaces it."""

    def __init__(self, current: Policies = NOTHING_PUBLISHED) -> None:
        self.current = current
        self._refused: set[tuple[str, int]] = set()
        self._was_read = False
        self._read_at = 0.0
        self._replacing = threading.Lock()

    def refresh(self, connection: psycopg.Connection[Any]) -> None:
        """Reads what is active now. Raises psycopg.Error when Postgres does not answer."""
        began, fees_known = time.monotonic(), self.current.fees[0].version if self.current.fees else 0
        with connection.pipeline():  # one packet out and one wait for all answers
            policies = connection.execute(SQL["policies_active"])
            newer_fees = connection.execute(SQL["fees_after"], (fees_known,))
            frozen = connection.execute(SQL["merchants_frozen"])
            health = connection.execute(SQL["processors_health"])
        active = {kind: (version, body) for kind, version, body in policies}
        found = structs.replace(
            self.current,
            risk=self._read("risk", active.get("risk"), self.current.risk, risk.read_policy),
            routing=self._read("routing", active.get("routing"), self.current.routing, routing.read_policy),
            fees=self._fees(newer_fees),
            reference_rates=self._read(
                "reference_rates", active.get("reference_rates"), self.current.reference_rates, read_rates
            ),
            frozen_merchants=frozenset(merchant for (merchant,) in frozen),
            health={row[0]: ProcessorHealth(**dict(zip(_HEALTH_FIELDS, row[1:], strict=True))) for row in health},
        )
        with self._replacing:
            if began >= self._read_at:  # else somebody began after us and was faster
                self.current, self._read_at, self._was_read = found, began, True

    def recent(self, connection: psycopg.Connection[Any]) -> None:
        """What was read once is of the last seconds afterwards. Raises psycopg.Error when Postgres does not answer."""
        if self._was_read and time.monotonic() - self._read_at > limits.POLICIES_RECENT_S:
            self.refresh(connection)

    def wait(self, stop: threading.Event) -> None:
        """Returns when everything that is published was read, or at ``stop``. Call it before anything is decided."""
        while not (self.is_complete or stop.wait(limits.POLICIES_FIRST_WAIT_S)):
            continue

    @property
    def is_complete(self) -> bool:
        """Whether a newest version of every kind was read, and could be."""
        return self._was_read and not self._refused

    def _read(self, kind: str, row: tuple[int, str] | None, last: P, read: Callable[[int, str], P]) -> P:
        """The active policy of a kind; the last good one when there is none newer, or it cannot be read."""
        if row is None or row[0] == last.version:
            return last
        version, body = row
        try:
            policy = read(version, body)
        except msgspec.DecodeError as error:
            self._refuse(kind, version, error)
            return last
        self._refused = {(other, number) for other, number in self._refused if other != kind}
        return policy

    def _fees(self, newer: Iterable[tuple[int, str]]) -> tuple[FeeVersion, ...]:
        """Every version, newest first; what comes behind one that cannot be read waits with it."""
        known = self.current.fees
        for version, body in newer:
            try:
                known = (fees.read_version(version, body), *known)
            except msgspec.DecodeError as error:
                self._refuse("fees", version, error)
                break
        return known

    def _refuse(self, kind: str, version: int, error: msgspec.DecodeError) -> None:
        if (kind, version) not in self._refused:
            self._refused.add((kind, version))
            _log.error("policy_unreadable", kind=kind, version=version, reason=str(error))

"""Rounds of probes, until it is stopped: in each, one of the two canaries in turn asks for all of the other's.

A round counts when every probe was carried out: an outage is stale, never ok.

What a probe finds is written as evidence at once, whatever becomes of the round, and stands until a person has looked
at it. Proof that tenants can be reached switches safe mode on with it; an outage or a mere difference proves nothing.
"""

from __future__ import annotations

import threading
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from compose import limits as compose_limits
from compose.isolation import belongings, session
from compose.isolation.canaries import Doors
from compose.isolation.database_lints import LINT as DATABASES
from compose.isolation.database_lints import DatabaseLints
from compose.isolation.object_probes import object_probes
from compose.isolation.own_probes import own_probes
from compose.isolation.placement_probes import PlacementProbes
from compose.isolation.route_probes import route_probes
from compose.isolation.sse_probes import sse_probes
from compose.isolation.statements import statement_probes
from compose.isolation.store_probes import POOL, AnalyticsProbe, store_probes
from schemas import errors
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.isolation.canaries import Canary
    from compose.isolation.counter_probes import CounterProbes
    from compose.isolation.egress import Egress
    from compose.isolation.found import Found
    from compose.isolation.stream_probes import StreamProbes
    from compose.settings.addresses import Addresses
    from ingress.identity.issuer import KeyFolder
    from sinks.tenancy.contexts import Contexts

SQL: Final = queries("sinks.postgres.queries.tenancy", "isolation.sql")
LINTS: Final = tuple(name for name in SQL if name.startswith("lint_") and name != "lint_done")
_log: Final = structlog.get_logger(__name__)


class Monitor:
    """One process of it; a second one does no harm."""

    def __init__(
        self,
        dsn: str,
        addresses: Addresses,
        issuer: KeyFolder,
        contexts: Contexts,
        egress: Egress,
        streams: StreamProbes,
        counters: CounterProbes,
        marking_key: bytes,
    ) -> None:
        self._dsn = dsn
        self._addresses = addresses
        self._issuer = issuer
        self._contexts = contexts
        self._egress = egress
        self._streams = streams
        self._counters = counters
        self._analytics = AnalyticsProbe(addresses.clickhouse_url)
        self._marking_key = marking_key
        self._stop = threading.Event()
        self._trouble: str | None = None
        self._placements = PlacementProbes()
        self._databases = DatabaseLints()
        self._rounds = 0  # that were done

    def stop(self) -> None:
        """Ends ``run`` after the probe under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """Always ready: what it cannot probe is told as stale, and is no reason to wait for it."""
        return None

    def run(self) -> None:
        """Rounds until ``stop``; what is away is waited for."""
        with (
            closing(self._analytics),
            closing(self._counters),
            closing(Doors(self._addresses.base_url, self._issuer, self._marking_key)) as doors,
        ):
            while not self._stop.is_set():
                try:
                    self._round(doors)
                    self._told(None)
                except (errors.PlatformError, psycopg.OperationalError) as error:
                    doors.forget()
                    self._told(str(error).partition("\n")[0])
                self._stop.wait(compose_limits.ISOLATION_ROUND_S if self._trouble is None else 1)

    def _told(self, trouble: str | None) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("isolation_round_not_done", reason=trouble)
        self._trouble = trouble

    def _round(self, doors: Doors) -> None:
        with session.connect(self._dsn, autocommit=True) as connection:
            for lint in LINTS:
                self._lint(connection, lint)
            if (beyond := doors.remembered(("rules of Kafka",), self._streams.rules_beyond)) is not None:
                self._linted(connection, "kafka_rules", beyond)
            probes = len(LINTS) + (beyond is not None)
            for found in chain(statement_probes(connection), self._asked(connection, doors)):
                self._keep(connection, found)
                probes += 1
            amiss = self._databases.look(self._addresses.postgres_dsns["millrace_ingress"])
            if amiss is not None:
                self._linted(connection, DATABASES, amiss)
            connection.execute(SQL["round_done"].encode(), {"probes": probes})
            self._rounds += 1  # one that was not done is tried again by the same canary

    def _asked(self, connection: psycopg.Connection[Any], doors: Doors) -> Iterator[Found]:
        tenants = [doors.tenant(name) for name in ("a", "b")]
        connection.execute(SQL["canaries"].encode(), {"ids": tenants})
        one, two = map(doors.canary, tenants)
        for canary in (one, two):
            belongings.ensure(doors, canary)
        yield from self._egress.probes((one, two))
        yield from self._probed(doors, *((two, one) if self._rounds % 2 else (one, two)))

    def _probed(self, doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
        yield from route_probes(doors, asks, other)
        reader = self._addresses.postgres_dsns["millrace_ingress"]
        yield from object_probes(doors, reader, asks, other)
        yield from own_probes(doors, reader, asks, other)
        told = doors.ask("", "GET", f"/v1/tenants/{asks.tenant_id}").json()
        now = told["placement"]["generation"], told["policy_version"]
        placed = told["placement"]
        store = placed["shard_or_database"] if placed["mode"] == "pooled" else POOL
        yield from store_probes(reader, self._contexts, asks, other, now, self._placements, store)
        yield from self._analytics.ask(asks, other)
        yield from self._streams.probes((asks, other))
        yield from self._counters.probes(asks, other)
        yield from sse_probes(doors, asks, other)  # last: one that says nothing in time ends the round

    def _keep(self, connection: psycopg.Connection[Any], found: Found) -> None:
        if found.evidence is None:
            return
        _log.error("tenants_not_apart", probe=found.probe, evidence=found.evidence, is_leak=found.is_leak)
        said = {"probe": found.probe, "evidence": found.evidence}
        with connection.transaction():
            connection.execute(SQL["violation_insert"].encode(), said)
            is_new = found.is_leak and connection.execute(SQL["trip"].encode(), said).fetchall() == [(True,)]
        if is_new:
            _log.error("isolation_safe_mode", **said)

    def _lint(self, connection: psycopg.Connection[Any], lint: str) -> None:
        amiss = [str(name) for (name,) in connection.execute(SQL[lint].encode(), {}).fetchall()]
        self._linted(connection, lint.removeprefix("lint_"), amiss)

    @staticmethod
    def _linted(connection: psycopg.Connection[Any], lint_id: str, amiss: list[str]) -> None:
        named = ", ".join(amiss[: compose_limits.ISOLATION_NAMED_MAX])
        found = {"lint_id": lint_id, "gaps": len(amiss), "named": named}
        connection.execute(SQL["lint_done"].encode(), found)

"""Rounds of probes, until it is stopped. A round counts when every probe was carried out: an outage is stale, never ok.

What a probe finds is written as evidence, and stands until a person has looked at it.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from compose import limits as compose_limits
from compose.isolation.canaries import Doors
from compose.isolation.route_probes import route_probes
from compose.isolation.statements import statement_probes
from compose.isolation.store_probes import AnalyticsProbe, store_probes
from schemas import errors
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.isolation.canaries import Canary
    from compose.isolation.egress import Egress
    from compose.isolation.route_probes import Found
    from compose.settings.addresses import Addresses
    from ingress.identity.issuer import KeyFolder
    from sinks.tenancy.contexts import Contexts

SQL: Final = queries("sinks.postgres.queries.tenancy", "isolation.sql")
LINTS: Final = tuple(name for name in SQL if name.startswith("lint_") and name != "lint_done")
_log: Final = structlog.get_logger(__name__)


class Monitor:
    """One process of it; a second one does no harm."""

    def __init__(self, dsn: str, addresses: Addresses, issuer: KeyFolder, contexts: Contexts, egress: Egress) -> None:
        self._dsn = dsn
        self._addresses = addresses
        self._issuer = issuer
        self._contexts = contexts
        self._egress = egress
        self._analytics = AnalyticsProbe(addresses.clickhouse_url)
        self._stop = threading.Event()
        self._trouble: str | None = None

    def stop(self) -> None:
        """Ends ``run`` after the probe under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """Always ready: what it cannot probe is told as stale, and is no reason to wait for it."""
        return None

    def run(self) -> None:
        """Rounds until ``stop``; what is away is waited for."""
        with closing(self._analytics), closing(Doors(self._addresses.base_url, self._issuer)) as doors:
            while not self._stop.is_set():
                try:
                    self._round(doors)
                    self._told(None)
                except (errors.PlatformError, psycopg.OperationalError) as error:
                    self._told(str(error).partition("\n")[0])
                self._stop.wait(compose_limits.ISOLATION_ROUND_S if self._trouble is None else 1)

    def _told(self, trouble: str | None) -> None:
        if trouble and trouble != self._trouble:
            _log.warning("isolation_round_not_done", reason=trouble)
        self._trouble = trouble

    def _round(self, doors: Doors) -> None:
        one, two = doors.canary("a"), doors.canary("b")
        found = [*self._probed(doors, one, two), *self._probed(doors, two, one), *self._egress.probes((one, two))]
        with psycopg.connect(self._dsn, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
            found += statement_probes(connection)
            for lint in LINTS:
                self._lint(connection, lint)
            for probe, evidence in found:
                if evidence is not None:
                    _log.error("tenants_not_apart", probe=probe, evidence=evidence)
                    connection.execute(SQL["violation_insert"].encode(), {"probe": probe, "evidence": evidence})
            connection.execute(SQL["round_done"].encode(), {"probes": len(found) + len(LINTS)})

    def _probed(self, doors: Doors, asks: Canary, other: Canary) -> Iterator[Found]:
        yield from route_probes(doors, asks, other)
        placement = doors.ask("", "GET", f"/v1/tenants/{asks.tenant_id}").json()["placement"]
        reader = self._addresses.postgres_dsns["millrace_ingress"]
        yield from store_probes(reader, self._contexts, asks, other, placement["generation"])
        yield from self._analytics.ask(asks, other)

    def _lint(self, connection: psycopg.Connection[Any], lint: str) -> None:
        amiss = [str(name) for (name,) in connection.execute(SQL[lint].encode(), {}).fetchall()]
        named = ", ".join(amiss[: compose_limits.ISOLATION_NAMED_MAX])
        found = {"lint_id": lint.removeprefix("lint_"), "gaps": len(amiss), "named": named}
        connection.execute(SQL["lint_done"].encode(), found)

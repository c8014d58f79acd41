"""Gateways that report their leases to a real Kafka, and the stream that settles them: for tests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from dataflows.limiter.identities.flow import IdentityStream
from dataflows.limiter.leases.flow import LeaseStream
from limiter.stream.kafka_blocks import KafkaReports
from reconciliation.check.invariant import invariants
from schemas.limiter import topics
from sinks.kafka.topics import ensure_topics
from sinks.postgres.migrate import migrate
from tests import asked
from tests.worlds.limiter.counter_server import limiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy
    from tests.servers import World

PATIENT_S: Final = 60.0  # for a store on a loaded machine
WITHIN_S: Final = 120.0


@contextmanager
def lease_stream(stack: World) -> Iterator[None]:
    """Leases are settled, and what was charged twice is given back, meanwhile."""
    addresses = stack.addresses
    migrate(addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    ensure_topics(addresses.kafka)
    servers = (addresses.kafka, addresses.postgres_dsns["millrace_leases"], addresses.redis_url)
    streams = LeaseStream(*servers, "leases"), IdentityStream(*servers, "identities")
    threads = [threading.Thread(target=stream.run) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for stream in streams:
            stream.stop()
        for thread in threads:
            thread.join()


@asynccontextmanager
async def reporting(stack: World, folder: Path, policy: LimitPolicy, name: str) -> AsyncIterator[Limiter]:
    """A gateway that flushes as one does, and ends without a word, as a killed one does."""
    reports = KafkaReports(stack.addresses.kafka, name)
    charged = KafkaReports(stack.addresses.kafka, f"{name}-identities", topics.IDENTITIES)
    async with limiter(
        stack.addresses.redis_url, folder, policy, name=name, timeout_s=PATIENT_S, reports=reports, charged=charged
    ) as gateway:
        flushing = asyncio.create_task(gateway._recorder.run())
        try:
            yield gateway
        finally:
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)
            reports.close()
            charged.close()


class Settled:
    """The settlements of one gateway's leases, as Postgres has them."""

    def __init__(self, stack: World, gateway: str) -> None:
        self._dsn = stack.addresses.postgres_dsns["millrace_operator"]
        self._prefix = f"{gateway}.%"

    def sums(self) -> tuple[int, int, int, int, int]:
        """Rows, granted, reported, assumed, released."""
        sums = ", ".join(f"coalesce(sum({name}), 0)::bigint" for name in ("granted", "reported", "assumed", "released"))
        query = f"select count(*), {sums} from limit_lease_settlement where lease_id like %s"
        return self._rows(query, (self._prefix,))[0]

    def reasons(self) -> set[str]:
        """How they ended."""
        query = "select distinct reason from limit_lease_settlement where lease_id like %s"
        return {reason for (reason,) in self._rows(query, (self._prefix,))}

    def open(self) -> int:
        """Leases that are not settled, of all gateways."""
        return int(self._rows("select sum(open_leases) from limit_lease_position", ())[0][0])

    def violations(self) -> list[Any]:
        """What ``millrace check`` would find."""
        (invariant,) = (i for i in invariants() if i.id == "21")
        return self._rows(invariant.sql, ())

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        return asked.rows(self._dsn, query.encode(), *values)

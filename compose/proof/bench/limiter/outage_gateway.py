"""A gateway on the real broker for the benchmark of an outage: in this process, or in one of its own behind frames."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from compose.proof.bench.limiter.world import policy
from compose.services.logs import configure_logs
from limiter.decide.limiter import Limiter
from limiter.edge.frame_server import FrameServer
from limiter.policy.policies import PolicySet
from limiter.store.store import CounterStore, StoreUnavailable
from limiter.stream.decisions import Recorder
from limiter.stream.kafka_blocks import KafkaBlocks, KafkaReports
from limiter.stream.lease_accounts import LeaseAccounts
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from compose.settings.addresses import Addresses

_ARRIVAL_S: Final = 110.0
_POLL_S: Final = 0.05


class Account(NamedTuple):
    """What a gateway says of itself in the end."""

    source: str
    recorded: int  # decisions in its ring, ever
    gap: int
    degraded: int
    store_calls: int
    flush_max_ms: float  # the longest that the loop was busy with the stream


class TimedRecorder(Recorder):
    """Knows for how long, at most, nothing was decided because of it."""

    flush_max_s = 0.0

    def take(self) -> None:
        """As it is."""
        began = time.perf_counter()
        super().take()
        self.flush_max_s = max(self.flush_max_s, time.perf_counter() - began)

    def send_part(self) -> None:
        """As it is."""
        began = time.perf_counter()
        super().send_part()
        self.flush_max_s = max(self.flush_max_s, time.perf_counter() - began)

    @property
    def source(self) -> str:
        """Under which its decisions are in the stream."""
        return self._source


class StreamingLimiter:
    """A limiter with its stream."""

    def __init__(self, limiter: Limiter, recorder: TimedRecorder, blocks: KafkaBlocks) -> None:
        self.limiter = limiter
        self._recorder = recorder
        self._blocks = blocks

    async def ended(self) -> Account:
        """When Kafka has all that it was given."""
        until = time.monotonic() + _ARRIVAL_S
        self._recorder.flush()
        while self._blocks.under_way and time.monotonic() < until:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(_POLL_S)
        return Account(
            self._recorder.source,
            self._recorder.ring.written,
            self._recorder.gap(),
            self.limiter.degraded,
            self.limiter.store_calls,
            round(self._recorder.flush_max_s * 1_000, 3),
        )


@asynccontextmanager
async def streaming_limiter(addresses: Addresses, folder: Path, blocks_max: int) -> AsyncIterator[StreamingLimiter]:
    """Everything that a gateway has and does in the background, under one leased policy that nothing exhausts."""
    configure_logs("info", sys.stderr)  # stdout is the figures'
    limits.LIMIT_BLOCKS_MAX = blocks_max  # type: ignore[misc] # of this process
    store = CounterStore(addresses.redis_url)
    await store.load()
    blocks = KafkaBlocks(addresses.kafka, folder.name)
    reports = KafkaReports(addresses.kafka, f"{folder.name}-leases")
    ring_file = folder / "decisions.ring"
    folder.mkdir()  # noqa: ASYNC240 - once, at the start
    leases = LeaseAccounts(ring_file.with_suffix(".book"), ring_file, reports)
    recorder = TimedRecorder(folder.name, blocks, ring_file, leases=leases)
    limiter = Limiter(store, recorder, folder.name)
    limiter.use(PolicySet([policy("leased")], 1))
    gc.freeze()
    gc.set_threshold(*limits.LIMIT_GC_THRESHOLDS)
    tasks = [asyncio.create_task(recorder.run()), asyncio.create_task(_settling(limiter))]
    try:
        yield StreamingLimiter(limiter, recorder, blocks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()
        recorder.close()
        blocks.close()
        reports.close()
        leases.shut()


async def _settling(limiter: Limiter) -> None:
    while True:
        await asyncio.sleep(limits.LIMIT_MAINTAIN_S)
        with suppress(StoreUnavailable):
            await limiter.maintain()


def serve(addresses: Addresses, folder: Path, path: Path, blocks_max: int, parent: Connection) -> None:
    """Decides behind frames, says so, and gives its account when it is asked to end."""
    asyncio.run(_serve(addresses, folder, path, blocks_max, parent))


async def _serve(addresses: Addresses, folder: Path, path: Path, blocks_max: int, parent: Any) -> None:
    async with streaming_limiter(addresses, folder, blocks_max) as gateway:
        server = FrameServer(gateway.limiter)
        await server.serve_unix(path)
        parent.send("serving")
        while not parent.poll():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(_POLL_S)
        await server.close()
        parent.send(await gateway.ended())

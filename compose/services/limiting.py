"""The parts of a limiter that runs in the process of a service, and what keeps them going."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog

from compose.services.owner_quotas import OwnerQuotas
from ingress.limiter.api_limits import STRANGERS, is_for_our_api
from limiter.decide.limiter import Limiter
from limiter.edge.metrics import GatewayMetrics, ShardMetrics
from limiter.policy.follower import SnapshotFollower
from limiter.policy.signing_keys import SigningKeys
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import StoreUnavailable
from limiter.stream.decisions import Recorder
from limiter.stream.kafka_blocks import KafkaBlocks, KafkaReports
from limiter.stream.lease_accounts import LeaseAccounts
from schemas.limiter import limits
from schemas.senders import GATEWAY
from sinks import cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from compose.settings.settings import Settings
    from ingress.limiter.quota_policies import QuotaPolicies
    from limiter.policy.policies import PolicySet
    from limiter.store.store import CounterStore

_log: Final = structlog.get_logger(__name__)


@asynccontextmanager
async def kept_going(
    limiter: Limiter,
    store: CounterStore | ShardedStore,
    recorder: Recorder,
    follower: SnapshotFollower,
    on_end: Callable[[asyncio.Task[None]], object],
) -> AsyncIterator[None]:
    """A limiter has its policies, its stream and its settlements; afterwards it has given back what it held.

    ``on_end`` hears of each of the parts that ends, which none does by itself unless it fails.
    """
    parts = (follower.run(), recorder.run(), _settling(limiter), _comparing_clocks(store))
    tasks = [asyncio.create_task(part) for part in parts]
    for task in tasks:
        task.add_done_callback(on_end)
    try:
        yield
    finally:
        await cancelled.over(*tasks)
        with suppress(StoreUnavailable):
            await limiter.close()
        recorder.flush()
        recorder.close()


async def _settling(limiter: Limiter) -> None:
    """Settles what ended until cancelled; without the store, later."""
    while True:
        await asyncio.sleep(limits.LIMIT_MAINTAIN_IDLE_S if limiter.is_idle else limits.LIMIT_MAINTAIN_S)
        with suppress(StoreUnavailable):
            await limiter.maintain()


async def _comparing_clocks(store: CounterStore | ShardedStore) -> None:
    """Looks at the stores' clocks until cancelled."""
    while True:
        await asyncio.sleep(limits.LIMIT_CLOCK_LOOK_S)
        await store.compare_clocks()


class OwnSnapshots:
    """What an ingress process itself serves, from when it serves it."""

    def __init__(self) -> None:
        self._policies: asyncio.Future[QuotaPolicies] = asyncio.get_running_loop().create_future()

    def begin(self, policies: QuotaPolicies) -> None:
        """From now on."""
        self._policies.set_result(policies)

    async def newer(self, known: str, wait_s: int) -> tuple[str, bytes] | None:
        """As ``limiter.policy.follower.Published``; it never waits, as others wait for what it sees."""
        del wait_s
        return await (await self._policies).newer(known)


@asynccontextmanager
async def api_limiter(settings: Settings, name: str, instance: int, snapshots: OwnSnapshots) -> AsyncIterator[Limiter]:
    """The limiter in front of one ingress process; it follows the snapshots that the ingress itself serves.

    Nothing here is waited for: until the first snapshot comes, and while the store or Kafka is away, the API answers.
    What fails for good is logged, and the policies that are in use stay.
    """
    addresses = settings.addresses()
    folder = settings.the_home().data("limiter")
    keys = settings.the_home().path / "keys"
    store = ShardedStore(
        addresses.redis_url_of("ingress"),
        timeout_s=settings.limiter_store_timeout_ms / 1_000,
        encrypted=settings.is_production,
    )
    kafka = settings.kafka_of("ingress", GATEWAY)
    blocks = KafkaBlocks(kafka, name)
    ring_file = folder / f"decisions-ingress-{instance}.ring"
    reports = KafkaReports(kafka, f"{name}-leases")
    book_file = folder / f"leases-ingress-{instance}.book"
    leases = LeaseAccounts(book_file, ring_file, reports, limits.LIMIT_API_LEASE_SLOTS)
    recorder = Recorder(name, blocks, ring_file, limits.LIMIT_API_RING_RECORDS, leases)
    quotas = OwnerQuotas(kafka, "api-limiter", instance)
    limiter = Limiter(store, recorder, name, quotas, settings.ingress_processes)

    def chosen(policies: PolicySet) -> PolicySet:
        return policies.only(is_for_our_api, STRANGERS)

    remembered = folder / f"revision-ingress-{instance}"
    follower = SnapshotFollower(
        snapshots,
        SigningKeys(keys).verifying_keys,
        limiter.use,
        remembered,
        store.use,
        limiter.lapse,
        settings.limiter_max_stale_s,
        chosen,
    )
    store.when_stale(follower.hurry)
    ShardMetrics(store)
    GatewayMetrics(limiter, recorder, blocks, follower)
    try:
        async with kept_going(limiter, store, recorder, follower, _ended):
            yield limiter
    finally:
        await quotas.close()
        await asyncio.to_thread(blocks.close)
        reports.close()  # on this thread: what is said of reports changes the accounts
        leases.shut()
        await store.close()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("api_limiter_part_ended", exc_info=error)

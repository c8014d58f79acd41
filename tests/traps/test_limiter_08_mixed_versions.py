"""Gateways that decide by different versions of a policy, and snapshots that nobody should use.

Trap 8 of the limiter: a gateway that was not told raises a lowered limit again, or forgets what was used; an old, a
stripped or an expired snapshot is accepted. MILLRACE_TEST_SEED plays a failure's seed again.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry

from limiter.edge.metrics import GatewayMetrics
from limiter.policy.follower import SnapshotFollower
from limiter.policy.published import PATH, PublishedOverHttp
from limiter.policy.snapshot import Envelope, Snapshot, key_id, sign
from schemas.limiter import limits
from tests.gate import examples
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import (
    PATIENT_S,
    TEN_MINUTES_MS,
    YEAR_MS,
    Blocks,
    CounterServer,
    emptied,
    limiter,
    policy,
    server,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
OPERATIONS = examples(3_000, 10_000)
USERS = examples(12, 40)  # so that each is asked for as often
COST_MAX = 9
CAPACITY = {1: 1_200, 2: 500, 3: 800}  # lowered, and raised again
KEY = Ed25519PrivateKey.generate()
KEYS = {key_id(KEY.public_key()): KEY.public_key()}


def version(number: int, consistency: str) -> LimitPolicy:
    terms: dict[str, Any] = {"consistency": consistency, "window_ms": YEAR_MS, "failure_mode": "closed"}
    return policy(version=number, capacity=CAPACITY[number], **terms)


@pytest.mark.parametrize("run_seed", seeds(1))
def test_the_newest_version_that_touched_a_key_decides_for_all_gateways(
    server: CounterServer, tmp_path: Path, run_seed: int
) -> None:
    """Thousands of decisions by gateways of three versions, each as a model says that knows who touched what when."""
    random_ = random.Random(run_seed)

    async def test() -> None:
        async with (
            limiter(server.url, tmp_path, version(1, "exact"), name="g1", timeout_s=PATIENT_S) as one,
            limiter(server.url, tmp_path, version(2, "exact"), name="g2", timeout_s=PATIENT_S) as two,
            limiter(server.url, tmp_path, version(3, "exact"), name="g3", timeout_s=PATIENT_S) as three,
        ):
            used: Counter[str] = Counter()
            newest: Counter[str] = Counter()
            late = 0  # decisions of a gateway that did not know the newest version
            for n in range(OPERATIONS):
                # the second version appears after a third of them, and the last one after two thirds
                known = random_.randint(1, 1 + 3 * n // OPERATIONS)
                user, cost = f"u{random_.randrange(USERS)}", random_.randint(0, COST_MAX)
                decided = await (one, two, three)[known - 1].check("t", user, "/r", cost)
                late += known < newest[user]
                newest[user] = max(newest[user], known)
                left = CAPACITY[newest[user]] - used[user]
                assert (decided.allowed, decided.degraded) == (cost <= left, False)
                used[user] += cost * decided.allowed
                assert decided.remaining == max(0, left - cost * decided.allowed)
            for user, amount in used.items():
                (bucket,) = one.governed("t", user, "/r").buckets
                counted = await one._store.peek(bucket)
                assert (counted.used, counted.version) == (min(amount, CAPACITY[1]), newest[user])
            assert late > OPERATIONS // 10
            assert any(amount > CAPACITY[2] for amount in used.values())  # lowered below what was used

    asyncio.run(test())


@pytest.mark.parametrize("run_seed", seeds(1))
def test_leases_of_an_old_version_add_nothing(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_seed: int
) -> None:
    """What an old gateway holds in leases when the limit is lowered is all that it may add: it was set aside before."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", TEN_MINUTES_MS)  # none ends by itself however slow this machine is
    random_ = random.Random(run_seed)

    async def test() -> None:
        async with (
            limiter(server.url, tmp_path, version(1, "leased"), name="g1", timeout_s=PATIENT_S) as one,
            limiter(server.url, tmp_path, version(2, "leased"), name="g2", timeout_s=PATIENT_S) as two,
        ):
            admitted = 0
            while not one.leases() or admitted < CAPACITY[2] // 2:
                admitted += (await one.check("t", "u", "/r")).allowed
            (bucket,) = one.governed("t", "u", "/r").buckets
            before = await one._store.peek(bucket)
            most = max(CAPACITY[2], before.used + before.reserved)
            for _ in range(OPERATIONS // 5):
                cost = random_.randint(1, COST_MAX)
                admitted += cost * (await random_.choice((one, two)).check("t", "u", "/r", cost)).allowed
            for gateway in (one, two):
                for held in gateway._buckets.values():
                    held.end_lease()
                await gateway.maintain()
            assert (await one._store.peek(bucket)).used == admitted
            assert CAPACITY[2] - COST_MAX < admitted <= most

    asyncio.run(test())


@contextmanager
def publisher() -> Iterator[tuple[list[bytes], str]]:
    """An address that serves the last of these documents to anybody, as a broken or conquered one might."""
    documents: list[bytes] = [b""]

    class Newest(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == PATH else 404)
            self.send_header("Content-Length", str(len(documents[-1])))
            self.end_headers()
            self.wfile.write(documents[-1])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Newest) as serving:
        threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield documents, f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def document(revision: int, capacity: int, *, valid_s: int = 3_600) -> bytes:
    now = int(time.time())
    found = policy(version=revision, capacity=capacity, consistency="exact", window_ms=YEAR_MS, failure_mode="closed")
    return sign(Snapshot(revision=revision, issued_at=now, not_after=now + valid_s, policies=[found]), KEY)


def stripped(signed: bytes) -> bytes:
    return msgspec.json.encode(Envelope(snapshot=msgspec.json.decode(signed, type=Envelope).snapshot))


def test_a_running_gateway_keeps_what_it_has_and_says_so(server: CounterServer, tmp_path: Path) -> None:
    """Offered by HTTP, poll after poll: each refusal is counted, each decision is by the snapshot in use."""
    hostile = {
        "older": document(4, 1_000_000),
        "unsigned": stripped(document(9, 1_000_000)),
        "expired": document(9, 1_000_000, valid_s=-1),
        "resigned": sign(Snapshot(revision=9, issued_at=0, not_after=2**40, policies=[]), Ed25519PrivateKey.generate()),
    }
    registry = CollectorRegistry()

    def refused() -> float:
        return registry.get_sample_value("millrace_limiter_snapshots_refused_total") or 0

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENT_S):
            while not condition():  # noqa: ASYNC110 - who follows snapshots tells nobody
                await asyncio.sleep(0.02)

    async def remaining(gateway: Limiter) -> tuple[int, int]:
        decided = await gateway.check("t", "u", "/r", 0)
        return gateway.revision, decided.remaining

    async def test(documents: list[bytes], address: str) -> None:
        async with limiter(server.url, tmp_path, timeout_s=PATIENT_S) as gateway:
            published = PublishedOverHttp(address, lambda: "token")
            follower = SnapshotFollower(published, lambda: KEYS, gateway.use, tmp_path / "revision")
            GatewayMetrics(gateway, gateway._recorder, Blocks(), follower, registry)  # type: ignore[arg-type]
            documents.append(document(5, 10))
            following = asyncio.create_task(follower.run())
            await until(lambda: gateway.revision == 5)
            assert await remaining(gateway) == (5, 10)
            for said, offered in hostile.items():
                before = refused()
                documents.append(offered)
                await until(lambda before=before: refused() >= before + 2)  # at every poll
                assert (said, await remaining(gateway)) == (said, (5, 10))
                assert follower.is_ready
            documents.append(document(6, 20))
            await until(lambda: gateway.revision == 6)
            assert await remaining(gateway) == (6, 20)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    with publisher() as (documents, address):
        asyncio.run(test(documents, address))

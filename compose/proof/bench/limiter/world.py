"""What the benchmark of the limiter runs on: a Valkey of its own, limiters on it, and keys asked for unevenly."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from compose.services.logs import configure_logs
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from compose.stack.valkey import Valkey
from limiter.decide.limiter import Limiter
from limiter.decide.store_exchange import taken_in
from limiter.policy.policies import PolicySet
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.charges import Charges
from limiter.stream.decisions import Recorder
from limiter.stream.lease_accounts import LeaseAccounts
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy, Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from limiter.frames.frames import Place

KEYS: Final = 100_000
_ZIPF: Final = 1.1
_HELD: Final = 2**30  # more than any measurement spends
_HELD_US: Final = 3_600_000_000
_START_S: Final = 10.0


class NoStream:
    """Takes every block at once: what is measured is the limiter, not Kafka."""

    under_way = lost = 0

    def send(self, partition: int, block: bytes) -> bool:  # noqa: ARG002 - of a sink
        """Safe at once."""
        return True


class KnownReports:
    """Takes every report of leases; at the next flush Kafka knows of it."""

    def __init__(self) -> None:
        self._told: list[Callable[[bool], None]] = []

    def poll(self) -> None:
        """All that was sent has arrived."""
        told, self._told = self._told, []
        for tell in told:
            tell(True)

    def send(self, partition: int, message: bytes, told: Callable[[bool], None]) -> bool:  # noqa: ARG002 - of a sink
        """Takes it."""
        self._told.append(told)
        return True


@contextmanager
def counter_server() -> Iterator[tuple[str, Path]]:
    """The URL of a Valkey that ends with the benchmark, and a folder."""
    folder = Path(tempfile.mkdtemp(prefix="millrace-bench-"))
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = int(free.getsockname()[1])
    valkey = Valkey(folder / "valkey", port, secrets.token_hex(8))
    valkey.prepare()
    process = subprocess.Popen(valkey.command(), stdout=subprocess.DEVNULL, cwd=folder)
    try:
        until = time.monotonic() + _START_S
        while (wrong := valkey.unhealthy()) is not None:
            if time.monotonic() > until or process.poll() is not None:
                raise StackError(f"the benchmark's Valkey did not start: {wrong}")
            time.sleep(0.05)
        yield valkey.url, folder
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def policy(consistency: str, *, capacity: int = 10**9, window_ms: int = 3_600_000) -> LimitPolicy:
    """A window; unless told otherwise one that nothing here exhausts."""
    fields: dict[str, Any] = {"refill_rate": None, "refill_period_ms": 1_000, "slots": 1, "strict": False}
    return LimitPolicy(
        policy_id="pl_bench",
        version=1,
        scope=Scope("*", "*", "*"),
        per=("tenant", "user", "route"),
        algorithm="fixed_window",
        capacity=capacity,
        window_ms=window_ms,
        consistency=consistency,  # type: ignore[arg-type] # one of the literals
        failure_mode="closed",
        shadow=False,
        audit="full",
        **fields,
    )


@asynccontextmanager
async def bench_limiter(
    url: str, folder: Path, consistency: str, *, timeout_s: float = limits.LIMIT_STORE_TIMEOUT_S, **terms: int
) -> AsyncIterator[Limiter]:
    """A limiter with everything on: identities, ring, clock, accounts of as many leases as a gateway can hold.

    ``terms``: of its policy, as ``policy`` takes them.
    """
    configure_logs("info", sys.stderr)  # stdout is the figures'
    counter_store = store.CounterStore(url, timeout_s=timeout_s)
    await counter_store.load()
    ring_file = folder / f"{secrets.token_hex(4)}.ring"
    leases = LeaseAccounts(ring_file.with_suffix(".book"), ring_file, KnownReports(), KEYS)
    recorder = Recorder("bench", NoStream(), ring_file, leases=leases, charges=Charges(KnownReports()))
    made = Limiter(counter_store, recorder, "bench")
    made.use(PolicySet([policy(consistency, **terms)], 1))
    try:
        yield made
    finally:
        await counter_store.close()
        recorder.close()
        leases.shut()


def hold_leases(limiter: Limiter, places: list[Place]) -> None:
    """Every key holds a lease that outlives the measurement, and is reported: nothing but the library is measured."""
    now_ns = lease_clock_ns()
    for place in places:
        granted = [store.OK, _HELD, 0, 0, 1, _HELD, _HELD_US]
        taken_in(limiter.governed(*place), 0, granted, now_ns, b"bench", 0)  # as a grant of the store
    for _ in range(2):  # they are reported, and known to be: grants are no part of what is measured
        limiter._recorder.flush()  # noqa: SLF001


def key_places(count: int) -> list[Place]:
    """So many keys."""
    return [(f"tenant{n % 1_000}", f"user{n}", "/v1/things") for n in range(count)]


def zipf(count: int, keys: int, seed: int = 1) -> list[int]:
    """Numbers of keys as traffic asks for them: few very often, most seldom."""
    weights = 1 / np.arange(1, keys + 1) ** _ZIPF
    random = np.random.default_rng(seed)
    found: list[int] = random.choice(keys, count, p=weights / weights.sum()).tolist()
    return found


def per_second(count: int, seconds: float, cpu_seconds: float) -> dict[str, float]:
    """Rates by the wall and by this process's CPU: on a busy machine the second tells what the code costs."""
    return {
        "decisions_per_s": round(count / seconds),
        "decisions_per_cpu_s": round(count / cpu_seconds),
        "cpu_us_per_decision": round(cpu_seconds / count * 1e6, 3),
    }


def percentiles(samples: list[float], unit: str) -> dict[str, float]:
    """p50, p99 and p999 of samples."""
    ordered = np.sort(np.array(samples))
    return {
        f"p{name}_{unit}": round(float(ordered[min(int(len(ordered) * share), len(ordered) - 1)]), 3)
        for name, share in (("50", 0.5), ("99", 0.99), ("999", 0.999))
    }

"""CHECK frames: a gateway's process behind a Unix socket, and one client process that asks it in batches."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from compose.proof.bench.cpu import cpu_seconds
from compose.proof.bench.limiter.world import (
    KEYS,
    bench_limiter,
    hold_leases,
    key_places,
    per_second,
    percentiles,
    zipf,
)
from compose.stack.errors import StackError
from limiter.edge.frame_server import FrameServer
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import Check
from limiter.store.lease_clock import lease_clock_ns
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limiter.decide.limiter import Limiter

_BATCH: Final = 128
_NAMED_AT_ONCE: Final = 1_024
_START_S: Final = 60.0


class _Took(NamedTuple):
    """What all batches took."""

    seconds: float
    client_s: float  # of its processor
    server_s: float
    refused: int


def frames_rate(url: str, folder: Path, decisions: int, at_once: int = 1) -> dict[str, Any]:
    """Batches from one client process, a new identity for each entry, on keys that hold leases.

    One frame at a time by the blocking client; several ``at_once`` by the one for asyncio: then neither process waits
    for the other, and the latency of a frame has those before it in it.
    """
    places = key_places(KEYS)
    asked = [Check(*places[n]) for n in zipf(decisions, KEYS)]
    batches = [asked[at : at + _BATCH] for at in range(0, len(asked), _BATCH)]
    named = [Check(*place) for place in places]  # asked first: every key has a number after it
    samples: list[float] = []
    gc.collect()
    gc.freeze()  # the questions are the benchmark's: no collection looks at them again and again
    with _gateway(url, folder) as (path, pid):
        if at_once == 1:
            took = _one_by_one(path, pid, named, batches, samples)
        else:
            took = asyncio.run(_several(path, pid, named, batches, samples, at_once))
    gc.unfreeze()
    return {
        **per_second(len(asked), took.seconds, took.client_s + took.server_s),
        **percentiles(samples, "ms"),
        "batch": _BATCH,
        "at_once": at_once,
        "refused": took.refused,
        "client_cpu_us_per_decision": round(took.client_s / len(asked) * 1e6, 3),
        "server_cpu_us_per_decision": round(took.server_s / len(asked) * 1e6, 3),
    }


def _one_by_one(path: Path, pid: int, named: list[Check], batches: list[list[Check]], samples: list[float]) -> _Took:
    with FrameClient(str(path)) as client:
        client.check_many(named)
        since = _since(pid)
        refused = 0
        for batch in batches:
            asked_at = time.perf_counter()
            refused += sum([not answer.allowed for answer in client.check_many(batch)])
            samples.append((time.perf_counter() - asked_at) * 1_000)
        return _took(since, pid, refused)


async def _several(
    path: Path, pid: int, named: list[Check], batches: list[list[Check]], samples: list[float], at_once: int
) -> _Took:
    left = iter(batches)

    async def caller(client: AsyncFrameClient) -> int:
        refused = 0
        for batch in left:
            asked_at = time.perf_counter()
            refused += sum([not answer.allowed for answer in await client.check_many(batch)])
            samples.append((time.perf_counter() - asked_at) * 1_000)
        return refused

    async with AsyncFrameClient(str(path)) as client:
        for at in range(0, len(named), _NAMED_AT_ONCE):
            await client.check_many(named[at : at + _NAMED_AT_ONCE])
        since = _since(pid)
        return _took(since, pid, sum(await asyncio.gather(*(caller(client) for _ in range(at_once)))))


def _since(pid: int) -> _Took:
    """The clocks: of the wall, of this process, of the server's."""
    return _Took(time.perf_counter(), time.process_time(), cpu_seconds({"server": [pid]})["server"], 0)


def _took(since: _Took, pid: int, refused: int) -> _Took:
    now = _since(pid)
    return _Took(now.seconds - since.seconds, now.client_s - since.client_s, now.server_s - since.server_s, refused)


@contextmanager
def _gateway(url: str, folder: Path) -> Iterator[tuple[Path, int]]:
    path = folder / "frames.sock"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(url, str(folder), str(path)), daemon=True)
    process.start()
    try:
        until = time.monotonic() + _START_S
        while not path.exists():
            if time.monotonic() > until or not process.is_alive():
                raise StackError("the benchmark's gateway did not start")
            time.sleep(0.05)
        yield path, process.pid or 0
    finally:
        process.terminate()
        process.join()
        path.unlink(missing_ok=True)  # the next one is there when its own is


def _serve(url: str, folder: str, path: str) -> None:
    asyncio.run(_served(url, Path(folder), Path(path)))


async def _served(url: str, folder: Path, path: Path) -> None:
    async with bench_limiter(url, folder, "leased") as limiter:
        hold_leases(limiter, key_places(KEYS))
        gc.freeze()
        gc.set_threshold(*limits.LIMIT_GC_THRESHOLDS)
        await FrameServer(limiter).serve_unix(path)
        await asyncio.gather(limiter._recorder.run(), _maintaining(limiter))  # noqa: SLF001 - as a gateway does


async def _maintaining(limiter: Limiter) -> None:
    """Until the process is terminated; leases are nobody's here, so there is none to settle."""
    while True:
        await asyncio.sleep(limits.LIMIT_MAINTAIN_S)
        limiter._identities.turn(lease_clock_ns())  # noqa: SLF001

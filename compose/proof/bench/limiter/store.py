"""The exact path beside the store's own rate, and how often leases ask the store."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import TYPE_CHECKING, Any, Final

from compose.proof.bench.limiter.world import KEYS, bench_limiter, key_places, per_second, percentiles, policy, zipf
from limiter.policy import keys as limit_keys
from limiter.policy.policies import PolicySet
from limiter.spending.buckets import Bucket
from limiter.store.store import EPOCH_KEY
from limiter.store.store_script import AsFunctions
from schemas.limiter import limits
from sinks.redis.line import opened

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.decide.limiter import Limiter

_AT_ONCE: Final = 256
_HOT_KEYS: Final = 1_000
_PAUSE_EVERY: Final = 64
_TIMEOUT_S: Final = 5.0
_HEAD: Final = struct.Struct("<6d")


async def exact(url: str, folder: Path, decisions: int) -> dict[str, Any]:
    """``check`` with a new identity each; and the same function called bare by one pipelining client."""
    places = key_places(KEYS)
    asked = [places[n] for n in zipf(decisions, KEYS)]
    rounds = []
    async with bench_limiter(url, folder, "exact") as limiter:
        for turn in range(2):  # bare, ours, bare, ours: the machine's mood is in both
            bare = await _bare(url, asked, turn)
            rounds.append((bare, await _checked(limiter, asked, turn)))
        degraded = limiter.degraded
    bare_s = sum(bare for bare, _ in rounds)
    seconds = sum(wall for _, (wall, _, _) in rounds)
    cpu_seconds = sum(cpu for _, (_, cpu, _) in rounds)
    samples = [sample for _, (_, _, some) in rounds for sample in some]
    total = 2 * len(asked)
    return {
        **per_second(total, seconds, cpu_seconds),
        **percentiles(samples, "ms"),
        "at_once": _AT_ONCE,
        "degraded": degraded,
        "bare_script_calls_per_s": round(total / bare_s),
        "share_of_bare_script": round(bare_s / seconds, 3),
    }


async def _bare(url: str, asked: list[tuple[str, str, str]], turn: int) -> float:
    """Seconds for the prepared calls, pipelined by one client."""
    level = PolicySet([policy("exact")], 1).all_levels()[0]
    head = _HEAD.pack(0, 0, 1, limits.LIMIT_IDENTITY_MS, 0, 1)
    calls = []
    for at, place in enumerate(asked):
        bucket, identity = Bucket(level, "\x1f".join(place)), f"b{turn}-{at}".encode()
        identity_key = limit_keys.identity_key(":".join(place), identity)
        names = [EPOCH_KEY, identity_key, *bucket.keys]
        calls.append(AsFunctions.call(b"rl1_decide", names, (head, b"bench", identity, bucket.plain_terms)))
    line = await opened(url, _TIMEOUT_S)
    began = time.perf_counter()
    for at in range(0, len(calls), _AT_ONCE):
        await asyncio.gather(*[line.send(call) for call in calls[at : at + _AT_ONCE]])
    seconds = time.perf_counter() - began
    line.lose("measured")
    return seconds


async def _checked(limiter: Limiter, asked: list[tuple[str, str, str]], turn: int) -> tuple[float, float, list[float]]:
    """Seconds, CPU seconds, and the milliseconds of each."""
    samples: list[float] = []
    questions = iter(enumerate(asked))

    async def caller() -> None:
        for at, (tenant, user, route) in questions:
            began = time.perf_counter()
            await limiter.check(tenant, user, route, 1, f"c{turn}-{at}")
            samples.append((time.perf_counter() - began) * 1_000)

    began, cpu_began = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))
    return time.perf_counter() - began, time.process_time() - cpu_began, samples


async def leases(url: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Store calls for each decision when leases are asked for as demand wants, on keys that are all in demand."""
    places = key_places(_HOT_KEYS)
    numbers = zipf(2**16, _HOT_KEYS)
    async with bench_limiter(url, folder, "leased") as limiter:
        flushing = asyncio.create_task(limiter._recorder.run())  # noqa: SLF001 - as a gateway does
        await _asked_for(limiter, places, numbers, seconds / 2)  # demand is known after it
        calls = limiter.store_calls
        decided = await _asked_for(limiter, places, numbers, seconds)
        flushing.cancel()
        return {
            "keys": _HOT_KEYS,
            "decisions": decided,
            "store_calls": limiter.store_calls - calls,
            "store_calls_per_decision": round((limiter.store_calls - calls) / decided, 4),
            "degraded": limiter.degraded,
        }


async def _asked_for(limiter: Limiter, places: list[tuple[str, str, str]], numbers: list[int], seconds: float) -> int:
    until = time.monotonic() + seconds
    decided = 0
    while time.monotonic() < until:
        for at in range(0, len(numbers), _PAUSE_EVERY):
            if time.monotonic() >= until:
                break
            await asyncio.gather(*(limiter.check(*places[n]) for n in numbers[at : at + _PAUSE_EVERY]))
            decided += _PAUSE_EVERY
        await limiter.maintain()
    return decided

"""One workload for everybody in one run, in turns (1000 per 10 s on 100,000 keys, Zipf): other libraries beside ours.

In process the others count in this process's memory, which no other process sees; so does ``ours_alone``, and
``ours_leased`` shares the store with every gateway, out of leases where a key is in demand. Through the store everybody
asks the same Valkey, one call a decision. Ours knows request identities and writes every decision down;
the others do neither.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from compose.proof.bench.limiter.world import KEYS, bench_limiter, key_places, per_second, percentiles, zipf
from limiter import InProcessLimiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from limiter.decide.limiter import Limiter

    Hit = Callable[[str], Any]

INSTALL: Final = "not installed; type: make setup"
_CAPACITY: Final = 1_000
_WINDOW_S: Final = 10
_TURNS: Final = 4  # everybody has its turn in the machine's good and bad moments
_OURS_AT_ONCE: Final = 256
_THREADS: Final = 16  # where both libraries were fastest (reference limiter 8)
_STORE_TIMEOUT_S: Final = 5.0
_STORE_SHARE: Final = 5  # a call of the store costs many times more: so many fewer decisions are asked for
_REST_S: Final = 0.1  # between two turns of what a gateway does in the background


class Contender:
    """Who decides, and what it took so far. ``decide_all`` gives the microseconds of each decision."""

    def __init__(self, decide_all: Callable[[list[int]], list[float]]) -> None:
        self._decide_all = decide_all
        self._samples: list[float] = []
        self._seconds = self._cpu_seconds = 0.0

    def turn(self, numbers: list[int], *, is_measured: bool) -> None:
        """Decides on keys, as fast as it can."""
        gc.collect()
        began, cpu_began = time.perf_counter(), time.process_time()
        samples = self._decide_all(numbers)
        if is_measured:
            self._seconds += time.perf_counter() - began
            self._cpu_seconds += time.process_time() - cpu_began
            self._samples += samples

    def result(self) -> dict[str, Any]:
        """Rates and percentiles of everything measured."""
        return per_second(len(self._samples), self._seconds, self._cpu_seconds) | percentiles(self._samples, "us")


def comparison(url: str, folder: Path, decisions: int) -> dict[str, Any]:
    """Everybody decides on the same keys in the same order; the first turn is not measured."""
    with asyncio.Runner() as runner, ThreadPoolExecutor(_THREADS) as pool:
        leaving = AsyncExitStack()
        try:
            limiters = {c: runner.run(_limiter(leaving, url, folder, c)) for c in ("leased", "exact")}
            ours = {c: Contender(_ours(runner, limiter)) for c, limiter in limiters.items()}
            in_process: dict[str, Contender | None] = {"ours_leased": ours["leased"], "ours_alone": Contender(_alone())}
            store: dict[str, Contender | None] = {"ours_exact": ours["exact"]}
            for name, made in _LIBRARIES.items():
                in_process[name] = _library(made, None, _one_by_one)
                store[name] = _library(made, url, partial(_in_threads, pool))
            _take_turns(in_process, decisions)
            _take_turns(store, decisions // _STORE_SHARE)
            calls = {c: limiter.store_calls for c, limiter in limiters.items()}
            degraded = sum(limiter.degraded for limiter in limiters.values())
        finally:
            runner.run(leaving.aclose())
    found = {"in_process": _results(in_process), "store": _results(store)}
    found["in_process"]["ours_leased"]["store_calls_per_decision"] = round(
        calls["leased"] / (decisions + decisions // _TURNS), 4
    )
    return {
        "workload": {"capacity": _CAPACITY, "window_s": _WINDOW_S, "keys": KEYS, "decisions": decisions},
        **found,
        "degraded": degraded,
        "ratios": ratios(found["in_process"], "ours_leased", "decisions_per_cpu_s")
        | ratios(found["in_process"], "ours_alone", "decisions_per_cpu_s")
        | ratios(found["store"], "ours_exact", "decisions_per_s"),
    }


def ratios(parts: dict[str, Any], ours: str, figure: str) -> dict[str, float]:
    """How many times faster ours is than each library that is installed."""
    return {
        f"{ours}_to_{name}": round(parts[ours][figure] / part[figure], 2)
        for name, part in parts.items()
        if not name.startswith("ours") and isinstance(part, dict)
    }


def _take_turns(contenders: dict[str, Contender | None], decisions: int) -> None:
    part = max(decisions // _TURNS, 1)
    numbers = zipf(part * _TURNS, KEYS)
    turns = [numbers[:part], *(numbers[at : at + part] for at in range(0, len(numbers), part))]
    for place, keys in enumerate(turns):
        for contender in contenders.values():
            if contender is not None:
                contender.turn(keys, is_measured=place > 0)


def _results(contenders: dict[str, Contender | None]) -> dict[str, Any]:
    return {name: INSTALL if one is None else one.result() for name, one in contenders.items()}


async def _limiter(leaving: AsyncExitStack, url: str, folder: Path, consistency: str) -> Limiter:
    terms = {"capacity": _CAPACITY, "window_ms": _WINDOW_S * 1_000}
    made = bench_limiter(url, folder, consistency, timeout_s=_STORE_TIMEOUT_S, **terms)
    return await leaving.enter_async_context(made)


def _ours(runner: asyncio.Runner, limiter: Limiter) -> Callable[[list[int]], list[float]]:
    places, identities = key_places(KEYS), iter(range(2**62))

    def decide_all(numbers: list[int]) -> list[float]:
        return runner.run(_asked(limiter, [(*places[n], f"i{next(identities)}") for n in numbers]))

    return decide_all


def _alone() -> Callable[[list[int]], list[float]]:
    """Without a server, as the other libraries: counters of this process alone."""
    limiter = InProcessLimiter({"algorithm": "fixed_window", "capacity": _CAPACITY, "window_ms": _WINDOW_S * 1_000})
    places = key_places(KEYS)
    return lambda numbers: [_timed_place(limiter, places[n]) for n in numbers]


def _timed_place(limiter: InProcessLimiter, place: tuple[str, str, str]) -> float:
    began = time.perf_counter_ns()
    limiter.check(*place)
    return (time.perf_counter_ns() - began) / 1_000


async def _asked(limiter: Limiter, asked: list[tuple[str, str, str, str]]) -> list[float]:
    """A new identity for each decision, and what a gateway does in the background meanwhile."""
    samples: list[float] = []
    questions = iter(asked)
    clock, check_now = time.perf_counter_ns, limiter.check_now

    async def caller() -> None:
        for tenant, user, route, identity in questions:
            began = clock()
            if check_now(tenant, user, route, 1, identity) is None:
                await limiter.check(tenant, user, route, 1, identity)
            samples.append((clock() - began) / 1_000)

    background = asyncio.create_task(_background(limiter))
    await asyncio.gather(*(caller() for _ in range(_OURS_AT_ONCE)))
    background.cancel()
    return samples


async def _background(limiter: Limiter) -> None:
    while True:
        await asyncio.sleep(_REST_S)
        limiter._recorder.flush()  # noqa: SLF001 - what a gateway's loop does meanwhile
        await limiter.maintain()


def _library(
    made: Callable[[str | None], Hit], url: str | None, all_by: Callable[[Hit], Callable[[list[int]], list[float]]]
) -> Contender | None:
    try:
        return Contender(all_by(made(url)))
    except ImportError:
        return None


def _one_by_one(hit: Hit) -> Callable[[list[int]], list[float]]:
    return lambda numbers: [_timed(hit, f"user{n}") for n in numbers]


def _in_threads(pool: ThreadPoolExecutor, hit: Hit) -> Callable[[list[int]], list[float]]:
    alone = _one_by_one(hit)

    def decide_all(numbers: list[int]) -> list[float]:
        dealt = [numbers[at::_THREADS] for at in range(_THREADS)]
        return [sample for part in pool.map(alone, dealt) for sample in part]

    return decide_all


def _timed(hit: Hit, key: str) -> float:
    began = time.perf_counter_ns()
    hit(key)
    return (time.perf_counter_ns() - began) / 1_000


def _limits(url: str | None) -> Hit:
    library = importlib.import_module("limits")
    strategies = importlib.import_module("limits.strategies")
    storage = library.storage.MemoryStorage() if url is None else library.storage.RedisStorage(url)
    strategy = strategies.FixedWindowRateLimiter(storage)
    item = library.RateLimitItemPerSecond(_CAPACITY, _WINDOW_S)
    return lambda key: strategy.hit(item, key)


def _throttled(url: str | None) -> Hit:
    library = importlib.import_module("throttled")
    quota = library.per_duration(timedelta(seconds=_WINDOW_S), _CAPACITY)
    # its default of 1,024 keys would forget counters that are used up
    store = library.MemoryStore(options={"MAX_SIZE": 2 * KEYS}) if url is None else library.RedisStore(server=url)
    return library.Throttled(using="fixed_window", quota=quota, store=store).limit  # type: ignore[no-any-return]


_LIBRARIES: Final[dict[str, Callable[[str | None], Hit]]] = {
    "limits": _limits,
    "throttled_py": _throttled,
}

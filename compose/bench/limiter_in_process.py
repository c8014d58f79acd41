"""Decisions in this process: our fast path, and libraries that Python programs use today, on the same keys."""

from __future__ import annotations

import gc
import importlib
import time
from typing import TYPE_CHECKING, Any, Final

from compose.bench.limiter_world import KEYS, hold_leases, key_places, per_second, percentiles, zipf
from limiter import spending
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.limiter import Limiter

_CHUNK: Final = 100_000  # decisions between two turns of what is done in the background
_OTHERS_SHARE: Final = 10  # other libraries are slower: they get a tenth of the decisions
_WINDOW_S: Final = 3_600


def in_process(limiter: Limiter, decisions: int) -> dict[str, Any]:
    """Everything on over leases that are held on every key; the ring is flushed outside the measured time."""
    places = key_places(KEYS)
    hold_leases(limiter, places)
    check_now = limiter.check_now
    seconds = cpu_seconds = flushed_seconds = 0.0
    samples: list[float] = []
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*limits.LIMIT_GC_THRESHOLDS)
    for at in range(0, decisions, _CHUNK):
        asked = [(*places[n], f"{at}-{i}") for i, n in enumerate(zipf(_CHUNK, KEYS, seed=at))]
        began, cpu_began = time.perf_counter(), time.process_time()
        for tenant, user, route, identity in asked:
            check_now(tenant, user, route, 1, identity)
        seconds += time.perf_counter() - began
        cpu_seconds += time.process_time() - cpu_began
        cpu_began = time.process_time()
        limiter._recorder.flush()  # noqa: SLF001 - what a gateway's loop does meanwhile
        limiter._identities.turn(time.monotonic_ns())  # noqa: SLF001
        flushed_seconds += time.process_time() - cpu_began
    clock = time.perf_counter_ns
    for tenant, user, route, identity in [(*places[n], f"t{i}") for i, n in enumerate(zipf(_CHUNK, KEYS))]:
        began_ns = clock()
        check_now(tenant, user, route, 1, identity)
        samples.append((clock() - began_ns) / 1_000)
    gc.set_threshold(*before)
    gc.unfreeze()
    rounds = -(-decisions // _CHUNK) * _CHUNK
    flushing = round(flushed_seconds / rounds * 1e6, 3)
    return (
        per_second(rounds, seconds, cpu_seconds)
        | percentiles(samples, "us")
        | {"flush_cpu_us_per_decision": flushing, "compiled": spending.IS_COMPILED}
    )


def other_libraries(decisions: int) -> dict[str, Any]:
    """The same keys in process, for what is installed: they know no identity, no policy version, no record."""
    found: dict[str, Any] = {}
    keys = [f"user{n}" for n in zipf(decisions // _OTHERS_SHARE, KEYS)]
    for name, made in (("limits", _limits), ("throttled_py", _throttled)):
        try:
            hit = made()
        except ImportError:
            found[name] = "not installed"
            continue
        began, cpu_began = time.perf_counter(), time.process_time()
        for key in keys:
            hit(key)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        samples = []
        for key in keys[: _CHUNK // 2]:
            began_ns = time.perf_counter_ns()
            hit(key)
            samples.append((time.perf_counter_ns() - began_ns) / 1_000)
        found[name] = per_second(len(keys), seconds, cpu_seconds) | percentiles(samples, "us")
    return found


def _limits() -> Callable[[str], Any]:
    library = importlib.import_module("limits")
    strategy = library.strategies.FixedWindowRateLimiter(library.storage.MemoryStorage())
    item = library.RateLimitItemPerHour(10**9)
    return lambda key: strategy.hit(item, key)


def _throttled() -> Callable[[str], Any]:
    throttled = importlib.import_module("throttled")
    quota = throttled.rate_limiter.per_hour(10**9)
    store = throttled.MemoryStore(options={"MAX_SIZE": 2 * KEYS})
    limiter = throttled.Throttled(using="fixed_window", quota=quota, store=store)
    return limiter.limit  # type: ignore[no-any-return]

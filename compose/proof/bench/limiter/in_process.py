"""Decisions in this process: our fast path, everything on."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Final

from compose.proof.bench.limiter.world import KEYS, hold_leases, key_places, per_second, percentiles, zipf
from limiter.spending.fields import IS_COMPILED
from limiter.store.lease_clock import lease_clock_ns
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.decide.limiter import Limiter

_CHUNK: Final = 100_000  # decisions between two turns of what is done in the background


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
        limiter._identities.turn(lease_clock_ns())  # noqa: SLF001
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
        | {"flush_cpu_us_per_decision": flushing, "compiled": IS_COMPILED}
    )

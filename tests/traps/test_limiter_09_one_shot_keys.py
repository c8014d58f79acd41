"""Keys that are asked for once and never again: neither a gateway nor the store keeps them.

Trap 9 of the limiter: immortal keys. Twenty thousand here, four times as many as the gateway may hold;
``MILLRACE_TEST_KEYS=1000000`` runs the million of the reference. Seen with it (five minutes, with ``--timeout=1400``): the
process stays at 117 MB from the first tenth to the last, it has 3 % more objects in the second half than in the first,
the store never has more than 22 MB, and is empty in the end.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

import limiter as limiter_package
from limiter.policy import keys
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store import CounterStore
from schemas.limiter import limits
from tests.eventually import becomes
from tests.worlds.limiter.counter_server import PATIENT_S, CounterServer, emptied, limiter, policy, server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limiter.decide.limiter import Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
KEYS = int(os.environ.get("MILLRACE_TEST_KEYS", "20000"))
HELD_MAX = 5_000  # by a gateway at once, instead of half a million and more
AT_ONCE = 1_000
WINDOW_MS = IDENTITY_MS = 2_000
KEPT_MS = 2 * WINDOW_MS + 1_000  # the longest that the store may keep anything of such a key
SCANNED = 10_000
GROWN_MAX = 50_000  # objects; a gateway that is emptied again and again has half a million, more or less
FIRST = 6_000  # more than are held: what is made once is there after them
A_DAY_NS = 86_400 * 10**9
ASKED, MORE = 50, 2_000  # keys


def times_to_live(connection: redis.Redis) -> Iterator[int]:
    """Of what is at the store now, all of it; -2 where it has just ended."""
    for names in iter_chunks(connection.scan_iter(count=SCANNED)):
        with connection.pipeline(transaction=False) as asked:
            for name in names:
                asked.pttl(name)
            yield from asked.execute()


def iter_chunks(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    while some := list(itertools.islice(names, SCANNED)):
        yield some


def drained(gateway: Limiter) -> int:
    """How many objects are left once nothing of any key is held any more: no peak, which depends on the time it took."""
    recorder, later_ns = gateway._recorder, lease_clock_ns()
    for _ in range(2):  # generations
        later_ns += A_DAY_NS
        gateway._identities.turn(later_ns)
    gateway._key_cache._make_room()
    recorder.flush()
    recorder._sink.sent.clear()  # the test's own list: a real sink keeps nothing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "LIMIT_KEYS_MAX", 0)
        recorder.forget()
    keys.name.cache_clear()  # bounded by itself, at more than are asked for here
    assert (len(gateway._keys), len(gateway._buckets), len(recorder._dictionary.rows)) == (0, 0, 0)
    gc.collect()
    return sys.getallocatedblocks()


def test_keys_that_are_used_once_leave_nothing_behind(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LIMIT_KEYS_MAX", "LIMIT_ANSWERS_MAX", "LIMIT_IDENTITIES_MAX"):
        monkeypatch.setattr(limits, name, HELD_MAX)
    monkeypatch.setattr(limits, "LIMIT_IDENTITY_MS", IDENTITY_MS)
    terms = policy(capacity=10, window_ms=WINDOW_MS)

    async def ask(gateway: Limiter, since: int, until: int) -> None:
        for at in range(since, until, AT_ONCE):
            asked = (gateway.check("t", f"u{n}", "/r", 1, f"r{n}") for n in range(at, at + AT_ONCE))
            decided = await asyncio.gather(*asked)
            assert {(d.allowed, d.degraded, d.duplicate) for d in decided} == {(True, False, False)}
            await gateway.maintain()
            gateway._recorder.flush()
            gateway._recorder._sink.sent.clear()
            assert len(gateway._recorder._dictionary.rows) <= HELD_MAX + AT_ONCE
            assert len(gateway._keys) <= HELD_MAX + AT_ONCE
            assert len(gateway._buckets) <= HELD_MAX + AT_ONCE
            assert max(map(len, gateway._identities._answers)) <= HELD_MAX + AT_ONCE

    async def test() -> None:
        async with limiter(server.url, tmp_path, terms, timeout_s=PATIENT_S) as gateway:
            await ask(gateway, 0, FIRST)
            before = drained(gateway)
            await ask(gateway, FIRST, KEYS)
            grown = drained(gateway) - before  # one object left of each key would be twice of this
            assert grown < min((KEYS - FIRST) // 2, GROWN_MAX), "objects are left of keys that are not used any more"

    asyncio.run(test())
    with redis.Redis.from_url(server.url) as connection:
        wrong = [ms for ms in times_to_live(connection) if ms != -2 and not 0 <= ms <= KEPT_MS]
        assert wrong == []
        becomes(lambda: len(list(connection.scan_iter(b"rl:{*", count=SCANNED))), 0, PATIENT_S, what="an empty store")


@contextmanager
def counted() -> Iterator[list[int]]:
    """The steps of what decides, in Python's own instructions: those of the loop and of connections are not among them."""
    steps = [0]
    ours = tuple(str(Path(limiter_package.__file__).parent / folder) for folder in ("decide", "spending"))

    def step(_: Any, event: str, __: Any) -> Any:
        steps[0] += event == "opcode"
        return step

    def entered(frame: Any, _: str, __: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ours):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield steps
    finally:
        sys.settrace(before)


def test_maintenance_does_as_much_as_expires_however_many_keys_were_asked(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in steps and in calls of the store, not in time: a walk over all keys is some steps for each of them."""
    told: list[bytes] = []
    settle = CounterStore.settle

    async def counting(store: CounterStore, bucket: Any, lease_id: bytes, spent: int) -> list[int]:
        told.append(lease_id)
        return await settle(store, bucket, lease_id, spent)

    monkeypatch.setattr(CounterStore, "settle", counting)

    async def tended(asked: int, ended: int, held: int) -> int:
        name = f"g{asked}.{ended}.{held}"
        async with limiter(server.url, tmp_path, policy(), name=name) as gateway:
            now_ns = lease_clock_ns()
            for n in range(asked):
                (bucket,) = gateway.governed("t", f"u{n}", "/r").buckets
                if n < ended + held:
                    until_ns = now_ns if n < ended else now_ns + A_DAY_NS
                    bucket.begin_lease(f"{name}.{n}".encode(), 10, until_ns, 0)
            told.clear()
            with counted() as steps:
                await gateway.maintain()
            assert (len(told), len(gateway._key_cache.active)) == (ended, held)
            return steps[0]

    async def test() -> None:
        for ended, held in ((0, 0), (10, 0), (10, 10)):
            few, many = await tended(ASKED, ended, held), await tended(MORE, ended, held)
            assert many - few < MORE - ASKED, "each key that was ever asked is looked at"
        none, some, twice = [await tended(ASKED, ended, 0) for ended in (0, 20, 40)]
        assert 0 < twice - some < 2 * (some - none), "of twice as many that expire each takes more"

    asyncio.run(test())

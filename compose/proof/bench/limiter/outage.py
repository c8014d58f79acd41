"""The broker is frozen while a gateway decides at full load: what decisions take, and what is missing afterwards.

Two outages: callers in the gateway's own process, then a client of its frames. A limiter as gateways run it, on the
real broker and a real Valkey; nothing is held beforehand, so leases are asked for, reported and, while Kafka is silent,
replaced by calls of the store. A decision's latency begins where its caller's former one ended: whatever the process
does in between is in it. Source: reference limiter section 7, trap 10.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from compose.proof.bench.limiter.outage_gateway import serve, streaming_limiter
from compose.proof.bench.limiter.outage_phases import PHASES, WAITED_MS, Phases, Plan, passing
from compose.proof.bench.limiter.world import key_places, zipf
from compose.proof.bench.world import bench_world
from compose.stack.errors import StackError
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_requests import Check
from limiter.stream.blocks import decisions_in, decode
from schemas.limiter import limits, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from compose.proof.bench.limiter.outage_gateway import Account
    from compose.proof.bench.world import World

KEYS: Final = 1_000
CALLERS: Final = 16  # at once in the process
BATCH: Final = 16  # entries of a frame
_A_TURN: Final = 16  # decisions of a caller before the loop has its turn, as long as none waits
_FRAME_TIMEOUT_S: Final = 120.0  # whoever waits is to be measured, not given up
_ARRIVAL_S: Final = 120.0  # for the broker to take what was queued


def outage(plan: Plan) -> dict[str, Any]:
    """Both outages on servers of their own. ``holds`` is false when a decision waited, or the gap is not the loss."""
    with bench_world(None) as world, tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        result = {
            "in_process": _in_process(world, Path(folder), plan),
            "frames": _frames(world, Path(folder), plan),
        }
    parts = list(result.values())
    return {
        **result,
        "outage_s": plan.outage_s,
        "queue": {"blocks": plan.blocks_max, "kbytes": limits.LIMIT_BLOCKS_KBYTES_MAX},
        "waited_over_ms": WAITED_MS,
        "holds": all(part["waited_for_kafka"] == 0 and part["gap"] == part["rows_missing"] for part in parts),
    }


def _in_process(world: World, folder: Path, plan: Plan) -> dict[str, Any]:
    before, phases = _ends(world), Phases()

    async def run() -> Account:
        async with streaming_limiter(world.addresses, folder / "in-process", plan.blocks_max) as gateway:
            check = gateway.limiter.check
            asked = itertools.cycle([place for _, place in _questions()])
            numbers = itertools.count()

            async def caller() -> None:
                ended = time.perf_counter()
                while (phase := phases.now) < len(PHASES):
                    for _ in range(_A_TURN):
                        await check(*next(asked), 1, f"o{next(numbers)}")
                        began, ended = ended, time.perf_counter()
                        phases.took(phase, ended - began, 1)
                        phase = min(phases.now, len(PHASES) - 1)
                    await asyncio.sleep(0)

            with passing(world, plan, phases):
                await asyncio.gather(*(caller() for _ in range(CALLERS)))
            return await gateway.ended()

    return _judged(world, before, asyncio.run(run()), phases, plan)


def _frames(world: World, folder: Path, plan: Plan) -> dict[str, Any]:
    before, phases = _ends(world), Phases()
    asked = [Check(*place) for _, place in _questions()]
    batches = itertools.cycle([asked[at : at + BATCH] for at in range(0, len(asked), BATCH)])
    with _gateway(world, folder, plan) as (path, end):
        with FrameClient(str(path), timeout_s=_FRAME_TIMEOUT_S) as client, passing(world, plan, phases):
            while (phase := phases.now) < len(PHASES):
                began = time.perf_counter()
                client.check_many(next(batches))
                phases.took(phase, time.perf_counter() - began, BATCH)
        account = end()
    return _judged(world, before, account, phases, plan) | {"batch": BATCH}


def _questions() -> list[tuple[int, tuple[str, str, str]]]:
    places = key_places(KEYS)
    return [(n, places[n]) for n in zipf(2**16, KEYS)]


@contextmanager
def _gateway(world: World, folder: Path, plan: Plan) -> Iterator[tuple[Path, Callable[[], Account]]]:
    """A gateway's process; the second of the pair ends it, and gives its account."""
    path = folder / "frames.sock"
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (world.addresses, folder / "frames", path, plan.blocks_max, theirs)
    process = context.Process(target=serve, args=arguments, daemon=True)
    process.start()
    theirs.close()

    def said(connection: Connection) -> Any:
        try:
            if connection.poll(_ARRIVAL_S):
                return connection.recv()
        except EOFError:
            pass
        raise StackError("the benchmark's gateway has failed")

    def end() -> Account:
        ours.send("end")
        account: Account = said(ours)
        return account

    try:
        said(ours)  # it serves
        yield path, end
    finally:
        process.terminate()
        process.join()


def _judged(world: World, before: list[int], account: Account, phases: Phases, plan: Plan) -> dict[str, Any]:
    rows, twice = _arrived(world, before, account.source)
    return {
        **phases.figures(plan.lengths_s()),
        "waited_for_kafka": phases.waited(),
        "decided": phases.decided,
        "recorded": account.recorded,
        "gap": account.gap,
        "rows_arrived": rows,
        "rows_twice": twice,
        "rows_missing": phases.decided - rows,
        "degraded": account.degraded,
        "store_calls": account.store_calls,
        "flush_max_ms": account.flush_max_ms,
    }


def _ends(world: World) -> list[int]:
    return world.ends(topics.DECISIONS, topics.DECISIONS_PARTITIONS)


def _arrived(world: World, since: list[int], source: str) -> tuple[int, int]:
    """Decisions of a source that lie in the topic, and how many of them lie there more than once."""
    consumer = Consumer(world.addresses.kafka.consumer("bench-outage", "bench-outage"))
    ends = _ends(world)
    consumer.assign(
        [TopicPartition(world.addresses.kafka.topic(topics.DECISIONS), p, offset) for p, offset in enumerate(since)]
    )
    left = {p for p, end in enumerate(ends) if end > since[p]}
    numbers: list[Any] = []
    try:
        while left:
            for message in consumer.consume(100, 1.0):
                if message.error() is not None:
                    raise StackError(f"the stream of decisions cannot be read: {message.error()}")
                block = decode(message.value() or b"")
                if block.source == source:
                    assert decisions_in(block) == len(block.columns())  # noqa: S101 - audit is full
                    numbers.append(block.numbers())
                partition = message.partition() or 0
                if (message.offset() or 0) + 1 >= ends[partition]:
                    left.discard(partition)
    finally:
        consumer.close()
    all_ = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
    return len(np.unique(all_)), len(all_) - len(np.unique(all_))

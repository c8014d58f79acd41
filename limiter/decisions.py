"""The stream of decisions: columnar blocks, sent in the background. Recording never waits and never fails.

A block holds decisions of some milliseconds of one gateway for one partition (that of the limit key), texts once.
``event_id`` of a decision is ``block:index``: made once, so consumers drop what they have seen. When the stream is out
for long, rows are lost and counted; a decision is not delayed by a microsecond. Source: reference limiter 4.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import xxhash
from msgspec import Struct

from schemas import limits
from schemas.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from limiter.decision import Decision

ALLOWED, DEGRADED, DUPLICATE, APPROXIMATE = 1, 2, 4, 8
_US: Final = 1_000
_encode: Final = msgspec.msgpack.Encoder().encode


class Block(Struct, frozen=True, kw_only=True):
    """Decisions in columns: ``key`` and ``policy`` point into the texts, ``offset_us`` counts from ``started_at``."""

    block_id: str
    started_at: int  # microseconds since the epoch
    keys: list[str]
    policies: list[str]
    key: list[int]
    policy: list[int]
    policy_version: list[int]
    cost: list[int]
    remaining: list[int]
    flags: list[int]
    offset_us: list[int]


decode: Final = msgspec.msgpack.Decoder(Block).decode


class BlockSink(Protocol):
    """Where blocks go."""

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when there is no room."""
        ...


class Recorder:
    """Collects decisions of one process, and hands them on as blocks."""

    def __init__(self, name: str, sink: BlockSink) -> None:
        self._name = name
        self._sink = sink
        self._rows: list[tuple[int, str, int, Decision]] = []
        self._numbers = itertools.count(1)
        self.lost = 0
        self.recorded = 0

    def record(self, key: str, cost: int, decided: Decision) -> None:
        """Notes one decision."""
        if len(self._rows) < limits.LIMIT_DECISIONS_QUEUE_MAX:
            self._rows.append((time.time_ns(), key, cost, decided))
        else:
            self.lost += 1

    async def run(self) -> None:
        """Flushes until cancelled."""
        while True:
            await asyncio.sleep(limits.LIMIT_DECISIONS_FLUSH_S)
            self.flush()

    def flush(self) -> None:
        """Sends what was recorded, at most one block for each partition and bound of rows."""
        rows, self._rows = self._rows, []
        parted: list[list[tuple[int, str, int, Decision]]] = [[] for _ in range(DECISIONS_PARTITIONS)]
        for row in rows:
            parted[partition_of(row[1])].append(row)
        for partition, part in enumerate(parted):
            for at in range(0, len(part), limits.LIMIT_DECISIONS_BLOCK_MAX):
                self._send(partition, part[at : at + limits.LIMIT_DECISIONS_BLOCK_MAX])

    def _send(self, partition: int, rows: list[tuple[int, str, int, Decision]]) -> None:
        keys: dict[str, int] = {}
        policies: dict[str, int] = {}
        started_ns = rows[0][0]
        block = Block(
            block_id=f"{self._name}.{next(self._numbers)}",
            started_at=started_ns // _US,
            key=[keys.setdefault(key, len(keys)) for _, key, _, _ in rows],
            policy=[policies.setdefault(d.policy_id, len(policies)) for *_, d in rows],
            keys=list(keys),
            policies=list(policies),
            policy_version=[d.policy_version for *_, d in rows],
            cost=[cost for _, _, cost, _ in rows],
            remaining=[d.remaining for *_, d in rows],
            flags=[_flags(d) for *_, d in rows],
            offset_us=[(at - started_ns) // _US for at, *_ in rows],
        )
        if self._sink.send(partition, _encode(block)):
            self.recorded += len(rows)
        else:
            self.lost += len(rows)


def partition_of(key: str) -> int:
    """All decisions on a key are in one partition."""
    return xxhash.xxh3_64_intdigest(key.encode()) % DECISIONS_PARTITIONS


def _flags(d: Decision) -> int:
    return ALLOWED * d.allowed | DEGRADED * d.degraded | DUPLICATE * d.duplicate | APPROXIMATE * d.approximate

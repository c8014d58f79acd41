"""Topics and the partitioner. If it were wrong, an aggregate could have two owners."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

RESULTS: Final = "results.v1"
RESULTS_PARTITIONS: Final = 16
WEEK_MS: Final = 7 * 24 * 3_600_000
DAY_MS: Final = 24 * 3_600_000
HOUR_MS: Final = 3_600_000
FOR_EVER: Final = -1


def commands_topic(service: str) -> str:
    """Where the commands of a service lie."""
    return f"commands.{service}.v1"


def events_topic(service: str) -> str:
    """Where the committed events of a service lie."""
    return f"events.{service}.v1"


def dead_letters_topic(service: str) -> str:
    """Where copies of parked records of a service lie."""
    return f"dead_letters.{service}.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as ``millrace up`` creates it. Commands and events of a service have equal partition counts."""

    name: str
    partitions: int
    retention_ms: int  # FOR_EVER, or until then
    doc: str
    senders: tuple[str, ...] = ()  # roles of schemas.senders that write it, of one that is no service's own


RESULTS_TOPIC: Final = Topic(
    name=RESULTS,
    partitions=RESULTS_PARTITIONS,
    retention_ms=HOUR_MS,
    doc="results for waiting ingress processes; the table idempotency is the truth",
)

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (org.apache.kafka.common.utils.Utils.murmur2) as an unsigned 32-bit integer."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for word in struct.unpack(f"<{length >> 2}I", data[:whole]):
        k = word * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_for(key: str, partitions: int) -> int:
    """The partition of an aggregate key: equal to what a Java producer's default partitioner picks."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions

"""Topics, partition counts and the partitioner. If ``partition_for`` were wrong, an aggregate could have two owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMMANDS_PAYMENTS: Final = "commands.payments.v1"
EVENTS_PAYMENTS: Final = "events.payments.v1"
DEAD_LETTERS_PAYMENTS: Final = "dead_letters.payments.v1"
COMMANDS_LIMITER: Final = "commands.limiter.v1"
EVENTS_LIMITER: Final = "events.limiter.v1"
DEAD_LETTERS_LIMITER: Final = "dead_letters.limiter.v1"
DECISIONS: Final = "limiter.decisions.v1"
LEASES: Final = "limiter.leases.v1"
IDENTITIES: Final = "limiter.identities.v1"
RESULTS: Final = "results.v1"

PAYMENTS_PARTITIONS: Final = 8
RESULTS_PARTITIONS: Final = 16
LIMITER_PARTITIONS: Final = 4
DECISIONS_PARTITIONS: Final = 4
LEASES_PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as ``millrace up`` creates it. Commands and events of a service have equal partition counts."""

    name: str
    partitions: int
    retention_ms: int  # -1 = for ever
    doc: str
    appended: bool = False  # its messages have the broker's time, not the producer's


_WEEK_MS: Final = 7 * 24 * 3_600_000
_DAY_MS: Final = 24 * 3_600_000
_HOUR_MS: Final = 3_600_000
DECISIONS_KEPT_MS: Final = _WEEK_MS

TOPICS: Final = (
    Topic(
        name=COMMANDS_PAYMENTS,
        partitions=PAYMENTS_PARTITIONS,
        retention_ms=_WEEK_MS,
        doc="commands to payment intents, keyed by aggregate_key",
    ),
    Topic(
        name=EVENTS_PAYMENTS,
        partitions=PAYMENTS_PARTITIONS,
        retention_ms=-1,
        doc="committed events of payment intents, keyed by aggregate_key, in commit order",
    ),
    Topic(
        name=DEAD_LETTERS_PAYMENTS,
        partitions=PAYMENTS_PARTITIONS,
        retention_ms=-1,
        doc="records that were parked, as they came; the table dead_letter is the truth",
    ),
    Topic(
        name=COMMANDS_LIMITER,
        partitions=LIMITER_PARTITIONS,
        retention_ms=_WEEK_MS,
        doc="commands to quota policies, keyed by aggregate_key",
    ),
    Topic(
        name=EVENTS_LIMITER,
        partitions=LIMITER_PARTITIONS,
        retention_ms=-1,
        doc="committed events of quota policies, in commit order",
    ),
    Topic(
        name=DEAD_LETTERS_LIMITER,
        partitions=LIMITER_PARTITIONS,
        retention_ms=-1,
        doc="records that were parked, as they came; the table dead_letter is the truth",
    ),
    Topic(
        name=DECISIONS,
        partitions=DECISIONS_PARTITIONS,
        retention_ms=DECISIONS_KEPT_MS,
        doc="decisions of the rate limiter in columnar blocks, keyed by gateway; totals of keys are made of them",
    ),
    Topic(
        name=LEASES,
        partitions=LEASES_PARTITIONS,
        retention_ms=_WEEK_MS,
        doc="leases of the rate limiter: granted and spent so far, cumulative; by the bucket that they are of",
    ),
    Topic(
        name=IDENTITIES,
        partitions=LEASES_PARTITIONS,
        retention_ms=_DAY_MS,
        doc="what leases were charged for under identities, hashed; by the bucket, as the leases are",
        appended=True,
    ),
    Topic(
        name=RESULTS,
        partitions=RESULTS_PARTITIONS,
        retention_ms=_HOUR_MS,
        doc="results for waiting ingress processes; the table idempotency is the truth",
    ),
)

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (org.apache.kafka.common.utils.Utils.murmur2) as an unsigned 32-bit integer."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_for(key: str, partitions: int) -> int:
    """The partition of an aggregate key: equal to what a Java producer's default partitioner picks."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions

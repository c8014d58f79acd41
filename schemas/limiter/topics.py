"""The topics of the rate limiter."""

from __future__ import annotations

from typing import Final

from schemas.senders import GATEWAY
from schemas.topics import DAY_MS, WEEK_MS, Topic, commands_topic, dead_letters_topic, events_topic

COMMANDS: Final = commands_topic("limiter")
EVENTS: Final = events_topic("limiter")
DEAD_LETTERS: Final = dead_letters_topic("limiter")
DECISIONS: Final = "limiter.decisions.v1"
LEASES: Final = "limiter.leases.v1"
IDENTITIES: Final = "limiter.identities.v1"

PARTITIONS: Final = 4
DECISIONS_PARTITIONS: Final = 4
LEASES_PARTITIONS: Final = 4
DECISIONS_KEPT_MS: Final = WEEK_MS

STREAMS: Final = (
    Topic(
        name=DECISIONS,
        partitions=DECISIONS_PARTITIONS,
        retention_ms=DECISIONS_KEPT_MS,
        doc="decisions of the rate limiter in columnar blocks, keyed by gateway; totals of keys are made of them",
        senders=(GATEWAY,),
    ),
    Topic(
        name=LEASES,
        partitions=LEASES_PARTITIONS,
        retention_ms=WEEK_MS,
        doc="leases of the rate limiter: granted and spent so far, cumulative; by the bucket that they are of",
        senders=(GATEWAY,),
    ),
    Topic(
        name=IDENTITIES,
        partitions=LEASES_PARTITIONS,
        retention_ms=DAY_MS,
        doc="what leases were charged for under identities, hashed; by the bucket, as the leases are",
        senders=(GATEWAY,),
    ),
)

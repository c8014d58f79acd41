"""The rate limiter's policies and durable quotas as the owner runtime sees them: topics, records, partitions."""

from __future__ import annotations

from dataflows.limiter.partition import LimiterPartition
from dataflows.owner.service import Service
from schemas import topics

EVENT_TYPE: str = "rate_limiter_committed"
EVENT_SCHEMA_VERSION: int = 4


def limiter_service() -> Service:
    """The service that owns quota policies, and the durable quotas of tenants."""
    return Service(
        name="limiter",
        code="l",
        commands_topic=topics.COMMANDS_LIMITER,
        events_topic=topics.EVENTS_LIMITER,
        dead_letters_topic=topics.DEAD_LETTERS_LIMITER,
        event_type=EVENT_TYPE,
        event_schema_version=EVENT_SCHEMA_VERSION,
        event_record="RateLimiterCommitted",
        dead_letter_record="DeadLetter",
        open_partition=LimiterPartition,
    )

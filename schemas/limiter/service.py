"""The rate limiter as a service at the boundary: its policies, and the durable quotas of tenants."""

from __future__ import annotations

from typing import Final

from schemas.limiter import topics
from schemas.limiter.operations import OPERATIONS
from schemas.service import EventType, Service

SERVICE: Final = Service(
    name="limiter",
    code="l",
    doc="quota policies and durable quotas",
    read_scope="limits:read",
    owner_role="millrace_limiter_owner",
    wired=True,
    partitions=topics.PARTITIONS,
    operations=tuple(OPERATIONS.values()),
    event_types=(EventType(name="rate_limiter_committed", record="RateLimiterCommitted"),),
    further_topics=topics.STREAMS,
)

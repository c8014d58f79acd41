"""The rate limiter's policies and durable quotas as the owner runtime sees them."""

from __future__ import annotations

from dataflows.limiter.partition import LimiterPartition
from dataflows.owner.service import OwnedService
from schemas.limiter.service import SERVICE


def limiter_service() -> OwnedService:
    """The service that owns quota policies, and the durable quotas of tenants."""
    return OwnedService(declared=SERVICE, open_partition=LimiterPartition)

"""What the rate limiter's documents alone need of an ingress process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterConfig:
    """Plain values, beside those of every service."""

    merchants_are_bound: bool = False  # a merchant's ``limits:write`` is for the tenant of its own name
    encrypted: bool = False  # no shard of counters is told our password where it is read on the way

"""How every process of ours connects to Valkey: bounded connections, short waits, one try more on a dead connection."""

from __future__ import annotations

import redis
from redis import retry
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from sinks import limits

_MS = 1_000


def connect(url: str, timeout_ms: int = limits.VELOCITY_TIMEOUT_MS) -> Redis:
    """A client that connects when it is used. ``url`` holds the password: never log it."""
    timeout_s = timeout_ms / _MS
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=limits.VELOCITY_CONNECTIONS_MAX,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1),
        client_name="millrace-ingress",
    )
    return Redis.from_pool(pool)  # which closes the pool with the client


def connect_blocking(url: str, timeout_ms: int, name: str, *, protocol: int | None = None) -> redis.Redis:
    """The same for a thread that waits, over one connection for each; the server lists it by ``name``."""
    timeout_s = timeout_ms / _MS
    return redis.Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=retry.Retry(NoBackoff(), 1),
        client_name=name,
        protocol=protocol,
    )

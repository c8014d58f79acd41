"""One server of a shard as an operator's command talks to it: what it is, its epoch, and its promotion."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import redis

from limiter.policy.shard_map import ShardsRefused
from limiter.store.store import EPOCH_KEY
from limiter.store.store_script import FUNCTIONS, LIBRARY
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPOCH: Final = (resources.files("sinks.redis") / "scripts" / "limiter" / "epoch.lua").read_text()
_POLL_S: Final = 0.02


class Seen(NamedTuple):
    """What a server says of itself."""

    is_primary: bool
    epoch: int
    eviction: str
    replicas: int  # of a primary: those that follow it now
    heard_s: int  # of a replica: seconds since it heard of its primary
    history: str = ""  # of what was written: the same on servers that follow one another
    offset: int = 0  # how far it has that history
    is_linked: bool = True  # a primary, or hears of its own


class ShardServer:
    """A connection; ``connected`` makes a ShardsRefused of whatever goes wrong in any method."""

    def __init__(self, connection: redis.Redis, place: str) -> None:
        self._connection = connection
        self.place = place

    def look(self) -> Seen:
        """What it is now."""
        found: dict[str, Any] = self._connection.info("replication")
        memory: dict[str, Any] = self._connection.info("memory")
        held: Any = self._connection.get(EPOCH_KEY.decode())
        return Seen(
            is_primary=found["role"] == "master",
            epoch=int(held or 0),
            eviction=str(memory["maxmemory_policy"]),
            replicas=int(found.get("connected_slaves", 0)),
            heard_s=int(found.get("master_last_io_seconds_ago", 0)),
            history=str(found["master_replid"]),
            offset=int(found.get("slave_repl_offset", found["master_repl_offset"])),
            is_linked=found.get("master_link_status", "up") == "up",
        )

    def check_fit(self) -> Seen:
        """What it is, when it may hold counters. Raises ShardsRefused."""
        seen = self.look()
        if seen.eviction != "noeviction":
            why = f"evicts counters (maxmemory-policy {seen.eviction}): set maxmemory-policy noeviction there"
            raise ShardsRefused(f"{self.place} {why}.")
        return seen

    def load(self) -> None:
        """The functions are there, for who may only call them. Where there can be none, callers load their script."""
        with suppress(redis.ResponseError):  # somebody else was faster, or it has none at all
            if not self._connection.function_list(library=LIBRARY.decode()):
                self._connection.function_load(FUNCTIONS.decode())

    def raise_epoch(self, epoch: int) -> None:
        """It answers callers of this epoch only, from now on. Raises ShardsRefused when it is past it."""
        self.load()
        held: Any = self._connection.eval(_EPOCH, 1, EPOCH_KEY.decode(), str(epoch))
        if held != epoch:
            raise ShardsRefused(f"{self.place} is at epoch {held} already, not {epoch}: run the command again.")

    def has_all_of(self, other: Seen) -> bool:
        """Whether it has what that server had when it was looked at; waits for it, for half the bound of a call."""
        until = time.monotonic() + limits.LIMIT_SHARD_CALL_TIMEOUT_S / 2
        while (seen := self.look()).history == other.history:
            if seen.offset >= other.offset:
                return True
            if not seen.is_linked or time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        return False

    def clock_us(self) -> int:
        """By which it counts."""
        told: Any = self._connection.time()
        seconds, rest_us = told
        return int(seconds) * 1_000_000 + int(rest_us)

    def become_primary(self) -> None:
        """It follows nobody."""
        self._connection.replicaof("NO", "ONE")


@contextmanager
def connected(url: str) -> Iterator[ShardServer]:
    """A server. Raises ShardsRefused, without any secret, when it does not answer as it should."""
    bound_s = limits.LIMIT_SHARD_CALL_TIMEOUT_S
    with (
        redis.Redis.from_url(url, socket_timeout=bound_s, socket_connect_timeout=bound_s) as connection,
        asked(connection, url) as server,
    ):
        yield server


@contextmanager
def asked(connection: redis.Redis, url: str) -> Iterator[ShardServer]:
    """The server of an open client. Raises as ``connected`` does."""
    place = urlsplit(url).netloc.rpartition("@")[2] or "the configured store"
    try:
        yield ShardServer(connection, place)
    except redis.AuthenticationError as error:
        why = "refuses the name and password of MILLRACE_REDIS_URL: all shards must take the same ones"
        raise ShardsRefused(f"{place} {why}.") from error
    except (redis.RedisError, OSError) as error:
        raise ShardsRefused(f"{place} does not answer as it should: {error}") from error

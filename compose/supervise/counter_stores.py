"""What the servers of Valkey need of a supervisor: epochs of the limiter's shards, functions and scripts.

The epochs begin with the stack: a store that says none afterwards has lost its counters. Processes of ours only call
functions and scripts. A restart forgets scripts, and a shard that comes back knows those functions that it knew: so
both are looked after for as long as the stack runs.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha1
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psycopg
import redis

from compose import limits as compose_limits
from limiter.policy.shard_map import ONE_SHARD, ShardsRefused, url_of
from limiter.store.shard_changes import ShardChanges, newest
from limiter.store.shard_server import asked
from sinks import limits
from sinks.redis.connection import connect_blocking
from sinks.redis.user import OPERATOR, user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compose.settings.addresses import Addresses

_MS: Final = 1_000
_SCRIPTS: Final = tuple(
    script.read_bytes()
    for folder in ("payments", "social")
    for script in (resources.files("sinks.redis") / "scripts" / folder).iterdir()
    if script.name.endswith(".lua")
)
_SHAS: Final = tuple(sha1(script, usedforsecurity=False).hexdigest() for script in _SCRIPTS)  # as servers name them


def begin_shards(addresses: Addresses, *, encrypted: bool) -> str | None:
    """Why a shard has no epoch yet, if so: its store does not answer, or somebody changes the shards just now."""
    with _operator(addresses) as connection:
        try:
            ShardChanges(connection, addresses.redis_url, "start", encrypted=encrypted).begin()
        except ShardsRefused as error:
            return f"the loss of a counter store would not be noticed: {error.public}"
    return None


class StoreTexts:
    """Functions at every shard, scripts at the configured servers: loaded again wherever they are missing.

    Servers are asked over connections that stay open, and sent a text only when they lack it.
    """

    def __init__(self, addresses: Addresses, *, encrypted: bool) -> None:
        self._addresses = addresses
        self._encrypted = encrypted
        self._postgres: psycopg.Connection[Any] | None = None
        self._map = ONE_SHARD
        self._map_due_s = 0.0
        self._servers: dict[str, redis.Redis] = {}
        self._beside = ThreadPoolExecutor(1, "store-texts")  # a server that hangs holds nobody else up
        self._loading: Future[str] | None = None
        self._due_s = 0.0
        self._said = ""

    def look(self) -> str | None:
        """Begins or goes on; what is to be said of it, once."""
        if self._loading is None:
            if time.monotonic() >= self._due_s:
                self._loading = self._beside.submit(self.load)
            return None
        if not self._loading.done():
            return None
        said, self._loading = self._loading.result(), None
        self._due_s = time.monotonic() + compose_limits.STORE_TEXTS_EVERY_S
        is_new, self._said = bool(said) and said != self._said, said
        return said if is_new else None

    def load(self) -> str:
        """Everything is everywhere; else why not, without any secret."""
        return "; ".join(dict.fromkeys(self._loaded()))

    def close(self) -> None:
        """Looks after nothing any more."""
        self._beside.shutdown(cancel_futures=True)
        self._leave_postgres()
        self._leave(list(self._servers))

    def _loaded(self) -> Iterator[str]:
        self._follow_map()
        own_url = self._addresses.redis_url
        shards = {shard.name: url_of(shard.address, own_url, encrypted=self._encrypted) for shard in self._map.shards}
        others = dict.fromkeys((own_url, self._addresses.social_homes_url))
        self._leave(self._servers.keys() - {*shards.values(), *others})
        for name, url in shards.items():
            try:
                with asked(self._server(url), url) as server:
                    server.load()
            except ShardsRefused as error:
                yield f"functions of shard {name} are not looked after: {error.public}"
        for url in others:
            if urlsplit(url).username != user_name(OPERATOR):
                continue  # whoever a URL of homes names loads what it calls
            try:
                _load_scripts(self._server(url))
            except (redis.RedisError, OSError) as error:
                yield f"scripts of Valkey are not looked after: {type(error).__name__}"

    def _server(self, url: str) -> redis.Redis:
        if url not in self._servers:
            timeout_ms = compose_limits.HEALTH_CHECK_TIMEOUT_S * _MS
            self._servers[url] = connect_blocking(url, timeout_ms, "millrace-supervisor")
        return self._servers[url]

    def _leave(self, urls: Iterable[str]) -> None:
        for url in list(urls):
            self._servers.pop(url).close()

    def _follow_map(self) -> None:
        """Who adds a shard loads what it needs. Without Postgres the last map stays."""
        if time.monotonic() < self._map_due_s:
            return
        try:
            self._postgres = self._postgres or _operator(self._addresses)
            self._map = newest(self._postgres)
            self._map_due_s = time.monotonic() + compose_limits.STORE_MAP_EVERY_S
        except psycopg.Error:
            self._leave_postgres()

    def _leave_postgres(self) -> None:
        if self._postgres is not None:
            self._postgres.close()
        self._postgres = None


def _operator(addresses: Addresses) -> psycopg.Connection[Any]:
    dsn = addresses.postgres_dsns["millrace_operator"]
    return psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S)


def _load_scripts(server: redis.Redis) -> None:
    there: Any = server.script_exists(*_SHAS)
    for script, is_there in zip(_SCRIPTS, there, strict=True):
        if not is_there:
            server.script_load(script)

"""Reads of the ingress from Postgres, as the role millrace_ingress. Every query is a file in ``queries/``.

Dependency rules: a timeout on connect, pool, statement and answer; one retry on a fresh connection (reads are safe to
repeat); a circuit breaker; mode fail_closed.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import nullcontext
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal

import psycopg

from ingress import limits as ingress_limits
from ingress.http import metrics
from ingress.http.breaker import Breaker
from schemas import errors, limits
from sinks import limits as sinks_limits
from sinks.postgres import arrays
from sinks.postgres.column_lists import variants
from sinks.postgres.hang_up import TOO_SLOW, answered_within
from sinks.postgres.kept_plans import KeptPlansConnection
from sinks.postgres.numbered_text import NumberedText
from sinks.postgres.session import INDEXED
from sinks.postgres.sql_files import bare
from sinks.postgres.warm_pool import WarmPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import LiteralString

_MS: Final = 1_000
_SETTINGS: Final = f"{INDEXED} " + " ".join(
    f"-c {name}={value}"
    for name, value in {
        "statement_timeout": sinks_limits.POSTGRES_STATEMENT_TIMEOUT_MS,
        "jit": "off",  # point reads gain nothing from it
        "plan_cache_mode": "force_generic_plan",
    }.items()
)


@cache
def _numbered(text: str) -> NumberedText:
    return NumberedText(text)


@cache
def _read_queries(packages: tuple[str, ...]) -> Mapping[str, LiteralString]:
    """By file name, of all folders; a name that two files have is one file too many."""
    folders = [folder for package in packages if (folder := resources.files(package) / "queries").is_dir()]
    found: dict[str, LiteralString] = {}
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.endswith(".sql"):
                if entry.name.removesuffix(".sql") in found:
                    raise ValueError(f"two queries are named {entry.name}")
                found |= variants(entry.name.removesuffix(".sql"), bare(entry.read_text()))
    return found


def _nobody_hears(_parameters: Mapping[str, Any], _took_s: float) -> None:
    pass


def _nobody_waits(_parameters: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
    return nullcontext()


async def _configured(connection: KeptPlansConnection) -> None:
    arrays.register(connection)


async def _of_one_moment(
    connection: KeptPlansConnection,
    statements: Sequence[tuple[LiteralString, Sequence[Any] | Mapping[str, Any]]],
) -> list[list[tuple[Any, ...]]]:
    async with connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        return [await (await connection.execute(text, given)).fetchall() for text, given in statements]


class Store:
    """A bounded pool of connections and the named queries. ``open`` before use, ``close`` after."""

    def __init__(
        self,
        dsn: str,
        *,
        synchronous_commit: Literal["on", "off"] = "off",
        packages: Sequence[str] = ("ingress",),
        pool_min: int = 1,
        pool_max: int = ingress_limits.INGRESS_POSTGRES_POOL_MAX,
        settings: str = "",
    ) -> None:
        """``settings`` are further options of its sessions (``-c name=value``), which outweigh those of all stores."""
        # Off: nearly all that is written are notes, see accepted_insert.sql. What has to be durable asks for a store
        # with it on; what is made once and read at every call turns it on as it is made, see author_key.sql.
        self._queries = _read_queries(tuple(packages))
        #: hears of every statement what it was given and how long its answer took, in seconds
        self.heard: Callable[[Mapping[str, Any], float], None] = _nobody_hears
        #: what a statement waits for, by what it was given; it may raise Overloaded
        self.turn: Callable[[Mapping[str, Any]], AbstractAsyncContextManager[None]] = _nobody_waits
        self._breaker = Breaker("The database")
        self._pool: WarmPool[KeptPlansConnection] = WarmPool(
            dsn,
            connection_class=KeptPlansConnection,
            min_size=pool_min,
            max_size=pool_max,
            timeout=ingress_limits.STORE_POOL_WAIT_S,
            reconnect_timeout=limits.POSTGRES_RECONNECT_S,
            open=False,
            configure=_configured,
            kwargs={
                "autocommit": True,
                "connect_timeout": sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
                "options": f"{_SETTINGS} -c synchronous_commit={synchronous_commit} {settings}",
                "application_name": "millrace-ingress",
            },
        )

    async def open(self) -> None:
        """Starts the pool; a database that is out is met later, by the queries."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.close()

    async def rows(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a named query. Raises Unavailable or DependencyTimeout when the database does not answer.

        Raises what ``turn`` raises, too.
        """
        async with self.turn(parameters):
            return (await self._fetched(query, parameters, is_named=False))[1]

    async def word(self, query: str, parameters: Mapping[str, Any]) -> str:
        """The one text of the one row of a named query. Raises as ``rows`` does."""
        ((found,),) = await self.rows(query, parameters)
        return str(found)

    async def records(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a named query by the names of their columns. Raises as ``rows``."""
        async with self.turn(parameters):
            names, rows = await self._fetched(query, parameters, is_named=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def _fetched(
        self, query: str, parameters: Mapping[str, Any], *, is_named: bool
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._breaker.enter()
        for tries_left in reversed(range(ingress_limits.STORE_RETRY_MAX + 1)):
            try:
                fetched = await self._execute(self._queries[query], parameters, is_named=is_named)
            except TOO_SLOW as error:
                self._failed()
                raise errors.DependencyTimeout(query=query) from error
            except psycopg.OperationalError as error:
                if not tries_left:
                    self._failed()
                    raise errors.Unavailable(query=query) from error
                await self._replace_broken_connections()
            else:
                self._breaker.succeeded()
                return fetched
        raise AssertionError("the last try returns or raises")

    async def snapshot(
        self, *statements: tuple[LiteralString, Sequence[Any] | Mapping[str, Any]]
    ) -> list[list[tuple[Any, ...]]]:
        """The rows of several statements of other packages, all of one moment. Raises as ``rows``, without a retry."""
        self._breaker.enter()
        try:
            async with self._pool.connection() as connection:
                with answered_within(connection, ingress_limits.STORE_ANSWER_S):
                    found = await _of_one_moment(connection, statements)
        except TOO_SLOW as error:
            self._failed()
            raise errors.DependencyTimeout(query="snapshot") from error
        except psycopg.OperationalError as error:
            self._failed()
            raise errors.Unavailable(query="snapshot") from error
        self._breaker.succeeded()
        return found

    async def _execute(
        self, text: LiteralString, parameters: Mapping[str, Any], *, is_named: bool
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        connection = await self._pool.getconn()  # which is in no transaction: there is none to end afterwards
        asked_at = time.perf_counter()
        try:
            with answered_within(connection, ingress_limits.STORE_ANSWER_S):
                result, rows = await connection.plans.asked(_numbered(text), parameters)
        finally:
            self.heard(parameters, time.perf_counter() - asked_at)
            await self._pool.putconn(connection)
        if not is_named or not rows:
            return [], rows
        return [(result.fname(n) or b"").decode() for n in range(result.nfields)], rows

    def _failed(self) -> None:
        metrics.STORE_FAILURES.inc()
        self._breaker.failed()

    async def _replace_broken_connections(self) -> None:
        """After a restart of the database every pooled connection is broken: one failure replaces them all."""
        await asyncio.sleep(random.uniform(0.5, 1.0) * ingress_limits.STORE_RETRY_BACKOFF_MS / _MS)
        try:
            async with asyncio.timeout(ingress_limits.STORE_POOL_WAIT_S):
                await self._pool.check()
        except (TimeoutError, psycopg.Error):
            return

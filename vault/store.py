"""What the vault asks Postgres, as the role millrace_vault. Ciphertext and digests only ever pass here.

Dependency rules: a timeout on connect, pool, statement and answer; one retry on a fresh connection (every statement
may be repeated: a card is stored once for its caller's key); mode fail_closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
import psycopg_pool
from psycopg.rows import tuple_row

from ingress import limits as ingress_limits
from schemas import errors, limits
from sinks import limits as sinks_limits
from sinks.postgres import sql_files
from sinks.postgres.hang_up import TOO_SLOW, answered_within
from vault import limits as vault_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTINGS: Final = (
    f"-c statement_timeout={vault_limits.VAULT_STATEMENT_TIMEOUT_MS}"
    " -c synchronous_commit=on"  # a token that was given out opens for ever
    " -c jit=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan"
)


def query(name: str) -> LiteralString:
    """A named query of this package."""
    return sql_files.queries("vault", "queries.sql")[name]


class VaultStore:
    """A bounded pool of connections. ``open`` before use, ``close`` after."""

    def __init__(self, dsn: str) -> None:
        self._pool = psycopg_pool.AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=vault_limits.VAULT_POSTGRES_POOL_MAX,
            timeout=ingress_limits.STORE_POOL_WAIT_S,
            reconnect_timeout=limits.POSTGRES_RECONNECT_S,
            open=False,
            kwargs={
                "autocommit": True,
                "connect_timeout": sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
                "options": _SETTINGS,
                "application_name": "millrace-vault",
            },
        )

    async def open(self) -> None:
        """Starts the pool; a database that is out is met later, by the queries."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.close()

    async def rows(self, name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a named query. Raises Unavailable or DependencyTimeout when the database does not answer."""
        for tries_left in reversed(range(ingress_limits.STORE_RETRY_MAX + 1)):
            try:
                return await self._execute(name, parameters)
            except TOO_SLOW as error:
                raise errors.DependencyTimeout(query=name) from error
            except psycopg.OperationalError as error:
                if not tries_left:
                    raise errors.Unavailable(query=name) from error
                await self._replace_broken_connections()
        raise AssertionError("the last try returns or raises")

    async def _execute(self, name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        async with self._pool.connection() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            with answered_within(connection, ingress_limits.STORE_ANSWER_S):
                await cursor.execute(query(name), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def _replace_broken_connections(self) -> None:
        """After a restart of the database every pooled connection is broken: one failure replaces them all."""
        try:
            async with asyncio.timeout(ingress_limits.STORE_POOL_WAIT_S):
                await self._pool.check()
        except (TimeoutError, psycopg.Error):
            return

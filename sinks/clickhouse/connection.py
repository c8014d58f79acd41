"""How every process of ours talks to ClickHouse: over its HTTP interface, with bounded waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver import options
from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas import errors
from sinks import limits

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

# We insert lists. The driver would import pandas, a second of a core and 60 MB, to ask whether they are frames.
vars(options).update(pd=None, pd_time_test=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickHouseConnection:
    """Address and credentials as one URL: ``http(s)://user:password@host:port/database``; never printed."""

    url: str = field(repr=False)

    @property
    def database(self) -> str:
        """The database that the tables are in."""
        return urlsplit(self.url).path.strip("/") or "default"

    def client(self, **settings: object) -> Client:
        """A client for one thread. Raises errors.Unavailable when the server does not answer."""
        parts = urlsplit(self.url)
        try:
            return clickhouse_connect.get_client(
                host=parts.hostname,
                port=parts.port or (8443 if parts.scheme == "https" else 8123),
                username=unquote(parts.username or "default"),
                password=unquote(parts.password or ""),
                database=self.database,
                interface=parts.scheme,
                connect_timeout=limits.CLICKHOUSE_CONNECT_TIMEOUT_S,
                send_receive_timeout=limits.CLICKHOUSE_STATEMENT_TIMEOUT_S,
                query_retries=0,  # the caller knows what may be repeated
                autogenerate_session_id=False,
                settings=settings,
            )
        except (ClickHouseError, OSError) as error:
            raise errors.Unavailable(f"ClickHouse does not answer: {type(error).__name__}") from error

"""Who asks most, and who is refused most: exact sums of the last minutes, from ClickHouse.

ClickHouse knows keys by their hash; who may read it is told the names by Postgres.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas import errors
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg
    from clickhouse_connect.driver.client import Client

What = Literal["key", "tenant", "policy", "route"]
By = Literal["asked", "denied", "cost", "degraded", "shadow"]
_SQL: Final = queries("sinks.clickhouse.limiter", "queries.sql")
_NAMES: Final = queries("sinks.postgres.queries.limiter", "policies.sql")["usage_names"]
_COLUMNS: Final = (
    *("name", "tenant", "route", "policy_id", "asked", "allowed", "denied", "repeated", "degraded", "cost", "shadow"),
)
_MINUTE_S: Final = 60


def busiest(
    client: Client, connection: psycopg.Connection[Any], *, what: What, by: By, minutes: int, limit: int
) -> dict[str, Any]:
    """The first ``limit`` by one figure since so many minutes. Raises errors.Unavailable.

    A key that no total knows yet is called by its hash.
    """
    since = (int(time.time()) // _MINUTE_S - minutes + 1) * _MINUTE_S
    try:
        asked = {"what": what, "by": by, "since": since, "limit": limit}
        rows = [
            dict(zip(_COLUMNS, row, strict=True)) for row in client.query(_SQL["busiest"], parameters=asked).result_rows
        ]
        as_of, gap = client.query(_SQL["busiest_as_of"]).result_rows[0]
    except (ClickHouseError, OSError) as error:
        raise errors.Unavailable(f"ClickHouse does not say who is busy: {str(error)[:200]}") from error
    if what == "key":
        found = connection.execute(_NAMES.encode(), ([row["name"] for row in rows],)).fetchall()
        names: dict[str, str] = dict(found)
        for row in rows:
            row["name"] = names.get(row["name"], row["name"])
    return {"what": what, "by": by, "minutes": minutes, "data": rows, "as_of": as_of or None, "gap": gap or 0}

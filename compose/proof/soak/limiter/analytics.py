"""The decisions in ClickHouse beside the totals in Postgres: two readers of one stream, both killed, one sum."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from clickhouse_connect.driver.exceptions import ClickHouseError

from compose.proof import limits
from compose.proof.soak.limiter.books import connection
from compose.proof.soak.proof import Proof
from schemas import errors
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from compose.settings.addresses import Addresses

_POSTGRES: Final = queries("compose.proof.soak.limiter", "postgres.sql")
_CLICKHOUSE: Final = queries("compose.proof.soak.limiter", "clickhouse.sql")


class Totals(NamedTuple):
    """Of one key, over every decision that consumed or was refused."""

    allowed: int
    denied: int
    allowed_cost: int
    refused_in_shadow: int = 0


class Kept(NamedTuple):
    """Rows of single decisions of one key, and how many decisions they stand for."""

    rows: int
    weight: int


class Analytics(NamedTuple):
    """Both accounts by key, which is a hash: no user is in ClickHouse."""

    postgres: dict[str, Totals]
    clickhouse: dict[str, Totals]
    summed: dict[str, Kept]  # as the sums in ClickHouse say
    kept: dict[str, Kept]  # as the rows are
    twice: int  # rows whose event_id is there already


async def same_decisions(addresses: Addresses, within_s: float) -> Proof:
    """Holds as soon as both agree; else it tells what differs when time is over. Raises Unavailable."""
    ends_at = time.monotonic() + within_s
    while True:
        found = prove(await asyncio.to_thread(_read, addresses))
        if found.holds or time.monotonic() > ends_at:
            return found
        await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)


def prove(found: Analytics) -> Proof:
    """Pure. No decision is missing in ClickHouse or there twice, whoever was killed between Kafka and a table."""
    no_totals, no_rows = Totals(0, 0, 0), Kept(0, 0)
    problems = [
        f"{key}: {found.clickhouse.get(key, no_totals)} in ClickHouse, {found.postgres.get(key, no_totals)} in Postgres"
        for key in sorted(found.postgres.keys() | found.clickhouse.keys())
        if found.clickhouse.get(key, no_totals) != found.postgres.get(key, no_totals)
    ]
    problems += [
        f"{key}: {found.kept.get(key, no_rows)} are there, {found.summed.get(key, no_rows)} were counted"
        for key in sorted(found.summed.keys() | found.kept.keys())
        if found.kept.get(key, no_rows) != found.summed.get(key, no_rows)
    ]
    if found.twice:
        problems.append(f"{found.twice} rows have the event_id of another one")
    if not found.clickhouse:
        problems.append("ClickHouse has no decision")
    allowed = sum(one.allowed for one in found.clickhouse.values())
    denied = sum(one.denied for one in found.clickhouse.values())
    rows = sum(one.rows for one in found.kept.values())
    says = f"{allowed} allowed and {denied} denied of {len(found.clickhouse)} keys, {rows} rows"
    return Proof(name="ClickHouse and Postgres have the same decisions", says=says, problems=problems)


def _read(addresses: Addresses) -> Analytics:
    with connection(addresses) as asked:
        totals = asked.execute(_POSTGRES["totals"]).fetchall()
    try:
        client = ClickHouseConnection(url=addresses.clickhouse_url).client()
        try:
            sums = client.query(_CLICKHOUSE["sums"]).result_rows
            rows = client.query(_CLICKHOUSE["rows"]).result_rows
        finally:
            client.close()
    except (ClickHouseError, OSError) as error:
        raise errors.Unavailable(f"ClickHouse does not say what it has: {str(error)[:200]}") from error
    clickhouse = {key: Totals(*row[:4]) for key, *row in sums}
    return Analytics(
        postgres={key: Totals(*row) for key, *row in totals},
        clickhouse={key: one for key, one in clickhouse.items() if any(one)},  # a repetition is no decision
        summed={key: Kept(*row[4:]) for key, *row in sums if row[4]},
        kept={key: Kept(*row[:2]) for key, *row in rows},
        twice=sum(row[-1] for row in rows),
    )

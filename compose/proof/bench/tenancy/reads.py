"""Reading some rows of one tenant by the statement of the ingress, isolated by context and row security, and not.

Both are of the ingress's role, in sessions with its settings: one prepared statement, one round trip, one transaction
a read. The other one says tenant and ids alike, of a table with the same rows and no row security. By turns in one run,
and of each the tenth percentile: what a read costs that need not wait for a processor.
"""

from __future__ import annotations

import tempfile
import time
from importlib import resources
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof.bench.goals import at_most
from compose.proof.bench.tenancy.metering import DATABASE
from sinks.postgres.session import INDEXED
from sinks.tenancy import contexts, secrets_file

if TYPE_CHECKING:
    from compose.proof.bench.world import World

_ISOLATED: Final = (resources.files("ingress") / "queries" / "tenancy" / "tenant_rows_pooled.sql").read_text()
_PLAIN: Final = (
    "select resource_id, version, payload, deleted from resource_of_all"
    " where tenant_id = %(tenant_id)s::text and resource_id = any(%(ids)s::text[])"
)
_FILLED: Final = (
    "insert into tenancy_pool.resource (tenant_id, resource_id, version, payload, deleted)"
    " select 'tn_' || t, 'rs_' || t || '_' || r, 1, decode(repeat('ab', 512), 'hex'), false"
    " from generate_series(1, 50) t, generate_series(1, 1000) r"
)
_OF_ALL: Final = (
    "create table resource_of_all (like tenancy_pool.resource including all);"
    "insert into resource_of_all select * from tenancy_pool.resource;"
    "grant select on resource_of_all to millrace_ingress"
)
_GATES: Final = "insert into tenancy.gate select 'tn_' || t, 1, 'rw' from generate_series(1, 50) t"
_SIZES: Final = (1, 20, 100)
_RATIO_GOAL: Final = 1.25
_TURNS: Final = 1_000
_US: Final = 1e6
_SESSION: Final = f"{INDEXED} -c jit=off -c plan_cache_mode=force_generic_plan"  # as the ingress's


def bench_reads(world: World) -> list[dict[str, Any]]:
    """What both cost, by the number of rows: microseconds of one call."""
    dsn = world.database(DATABASE)
    try:
        with tempfile.TemporaryDirectory() as keys, psycopg.connect(dsn, autocommit=True) as connection:
            secrets = secrets_file.ensure(Path(keys))
            contexts.install(connection, secrets)
            connection.execute(_GATES)
            connection.execute(_FILLED)
            connection.execute(_OF_ALL)
            connection.execute("analyze")
            made = contexts.Contexts(secrets)
            return [_measured(dsn, made, rows) for rows in _SIZES]
    finally:
        world.drop(DATABASE)


def _measured(dsn: str, made: contexts.Contexts, rows: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = {_ISOLATED: [], _PLAIN: []}
    with (
        psycopg.connect(dsn, autocommit=True, options=_SESSION) as isolated,
        psycopg.connect(dsn, autocommit=True, options=_SESSION) as plain,
    ):
        for connection in (isolated, plain):
            connection.execute("set role millrace_ingress")
        for turn in range(_TURNS):
            tenant = turn % 50 + 1
            asked = {
                "context": made.of(f"tn_{tenant}", 1, "r", policy_version=1),
                "tenant_id": f"tn_{tenant}",
                "ids": [f"rs_{tenant}_{(turn + n) % 1_000 + 1}" for n in range(rows)],
            }
            both = ((isolated, _ISOLATED), (plain, _PLAIN))
            for connection, query in both if turn % 2 else reversed(both):
                began = time.perf_counter()
                found = connection.execute(query.encode(), asked, prepare=True).fetchall()
                taken[query].append(time.perf_counter() - began)
                if len(found) != rows:
                    raise AssertionError(f"{len(found)} rows of {rows}")
    isolated_us, plain_us = (round(quantiles(times, n=10)[0] * _US) for times in taken.values())
    ratio = at_most("ratio", isolated_us / plain_us, _RATIO_GOAL)
    return {"rows": rows, "isolated_us": isolated_us, "plain_us": plain_us, **ratio}

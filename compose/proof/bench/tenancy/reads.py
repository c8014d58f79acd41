"""Reading some rows of one tenant by the statements of the ingress, isolated by context and row security, and not.

One row is read with its head, some are read by their ids. Both are of the ingress's role, in sessions with its
settings: one prepared statement, one round trip, one transaction a read. The other one is the same statement of a table
with the same rows and no row security. By turns in one run, and of each the tenth percentile: what a read costs that
need not wait for a processor.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager, suppress
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
    from collections.abc import Iterator

    from compose.proof.bench.world import World

_QUERIES: Final = resources.files("ingress") / "queries" / "tenancy"
ONE: Final = (_QUERIES / "resource_pooled_by_id.sql").read_text()
SOME: Final = (_QUERIES / "tenant_rows_pooled.sql").read_text()
#: what isolation adds to a statement, and what stands there without it
_ISOLATION: Final = (
    ("tenancy_pool.resource", "resource_of_all"),
    ("(select set_config('app.ctx', %(context)s::text, true)) is not null", "true"),
    (" and (set_config('app.ctx', %(context)s::text, true) = t.tenant_id) is not null", ""),
    ("any (array[%(tenant_id)s::text])", "%(tenant_id)s::text"),
    ("(r.tenant_id = %(tenant_id)s::text) is true", "r.tenant_id = %(tenant_id)s::text"),
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
_HEADS: Final = (
    "insert into placement values ('pl_bench', 'home', 'pooled', 'tenancy_pool', 'active', null);"
    "insert into tenant (tenant_id, partition, name, tier, state, timezone, home_currency, quotas, prices,"
    " placement_id, generation, key_ref, policy_version, version, created_at, updated_at)"
    " select 'tn_' || t, 0, 'bench', 'standard', 'active', 'UTC', 'USD', '{}', '{}', 'pl_bench', 1, 'tk', 1, 1, 1, 1"
    " from generate_series(1, 50) t;"
    "insert into resource_head select tenant_id, resource_id, 1, false, 1, 1, 1 from tenancy_pool.resource"
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
            connection.execute(_HEADS)
            connection.execute("analyze")
            made = contexts.Contexts(secrets)
            return [_measured(dsn, made, rows) for rows in _SIZES]
    finally:
        world.drop(DATABASE)


def without_isolation(query: str) -> str:
    """The same statement of a table without row security: no context, no proof. Raises ValueError if any is left."""
    for isolated, plain in _ISOLATION:
        query = query.replace(isolated, plain)
    if "app.ctx" in query or "tenancy_pool" in query:
        raise ValueError("the benchmark does not know this statement's isolation")
    return query


@contextmanager
def _on_one_core(*pids: int) -> Iterator[None]:
    """These processes and this one share a core: one that has to be woken from its rest takes half as long as a read.

    Nothing changes where a system has no such thing, or the server is another user's.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        with suppress(PermissionError, ProcessLookupError):
            for pid in (*pids, 0):
                os.sched_setaffinity(pid, {min(before)})
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measured(dsn: str, made: contexts.Contexts, rows: int) -> dict[str, Any]:
    query = ONE if rows == 1 else SOME
    plain_query = without_isolation(query)
    taken: dict[str, list[float]] = {query: [], plain_query: []}
    with (
        psycopg.connect(dsn, autocommit=True, options=_SESSION) as isolated,
        psycopg.connect(dsn, autocommit=True, options=_SESSION) as plain,
        _on_one_core(isolated.info.backend_pid, plain.info.backend_pid),
    ):
        for connection in (isolated, plain):
            connection.execute("set role millrace_ingress")
        for turn in range(_TURNS):
            tenant = turn % 50 + 1
            ids = [f"rs_{tenant}_{(turn + n) % 1_000 + 1}" for n in range(rows)]
            asked = {
                "context": made.of(f"tn_{tenant}", 1, "r", policy_version=1),
                "tenant_id": f"tn_{tenant}",
                "policy_version": 1,
                "placement_id": "pl_bench",
                "resource_id": ids[0],
                "ids": ids,
            }
            both = ((isolated, query), (plain, plain_query))
            for connection, text in both if turn % 2 else reversed(both):
                began = time.perf_counter()
                found = connection.execute(text.encode(), asked, prepare=True).fetchall()
                taken[text].append(time.perf_counter() - began)
                came = sum(row[-1] is not None for row in found)
                if came != rows:
                    raise AssertionError(f"{came} rows of {rows}")
    isolated_us, plain_us = (round(quantiles(times, n=10)[0] * _US) for times in taken.values())
    ratio = at_most("ratio", isolated_us / plain_us, _RATIO_GOAL)
    return {"rows": rows, "isolated_us": isolated_us, "plain_us": plain_us, **ratio}

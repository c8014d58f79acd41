"""The move of a large tenant: how fast its rows are copied and compared, and for how long it may not write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof import limits as proof_limits
from compose.proof.bench.goals import at_least, at_most
from compose.proof.bench.tenancy.load import (
    STAFF,
    command,
    create,
    process,
    send,
    tenancy_owner,
    tenant_of,
    wait_until,
)
from compose.stack.errors import StackError
from schemas.tenancy import limits as tenancy_limits
from sinks.kafka.delivery import command_letter

if TYPE_CHECKING:
    from compose.proof.bench.world import World

_KEY: Final = "large"
_LOOK_S: Final = 0.002
_ROWS_GOAL: Final = 50_000
_PAUSE_GOAL_MS: Final = 1_000
_MADE: Final = "select count(*) from tenant where tenant_id = %s and state = 'active'"
_HEADS: Final = (
    "insert into resource_head select %s, 'rs_' || lpad(n::text, 26, '0'), 1, false, 100, 1, 1"
    " from generate_series(1, %s) n"
)
_ROWS: Final = (
    "insert into tenancy_pool.resource select %s, 'rs_' || lpad(n::text, 26, '0'), 1, sha256(n::text::bytea)"
    " || sha256('a'::bytea) || sha256('b'::bytea), false from generate_series(1, %s) n"
)
_USED: Final = "insert into quota_usage values (%s, 'resources', %s)"
_STATE: Final = "select state, fenced, rows_verified, mismatches, reason from tenant_migration where tenant_id = %s"
_ENDED: Final = frozenset({"soaking", "aborted"})


def measure_move(world: World, dsn: str, rows: int) -> dict[str, Any]:
    """A tenant with so many rows of a hundred bytes goes from the pool into a schema of its own."""
    tenant, kafka = tenant_of(_KEY), world.signer()
    with (
        tenancy_owner(world, dsn),
        process(world, dsn, "tenancy_mover"),
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        send(world, [command_letter(kafka, create(_KEY))])
        wait_until(connection, _MADE, (tenant,), 1)
        for query in (_HEADS, _ROWS, _USED):
            connection.execute(query.encode(), (tenant, rows))
        connection.execute("vacuum analyze")
        asked = {"placement": {"mode": "partitioned"}, "rows_per_second": tenancy_limits.MOVE_ROWS_PER_SECOND_MAX}
        send(world, [command_letter(kafka, command("start_migration", "move", STAFF, asked, path_id=tenant))])
        seconds, (state, _, verified, mismatches, reason) = _watched(connection, tenant)
    if state != "soaking" or mismatches:
        raise StackError(f"the move of the benchmark is {state}: {reason}; {mismatches} mismatches")
    return {
        "rows": rows,
        **at_least("copied_rows_per_s", round(rows / max(seconds.get("copying", 0), _LOOK_S)), _ROWS_GOAL),
        "verified_rows": verified,
        **at_least("verified_rows_per_s", round(rows / max(seconds.get("verifying", 0), _LOOK_S)), _ROWS_GOAL),
        **at_most("write_pause_ms", round(seconds.get("fenced", 0) * 1_000, 1), _PAUSE_GOAL_MS),
    }


def _watched(connection: psycopg.Connection[Any], tenant: str) -> tuple[dict[str, float], tuple[Any, ...]]:
    """Seconds by state, and under the fence; and the row at the end."""
    seconds: dict[str, float] = {}
    before, deadline = time.monotonic(), time.monotonic() + proof_limits.BENCH_TENANCY_WAIT_S
    while (now := time.monotonic()) < deadline:
        row = connection.execute(_STATE, (tenant,)).fetchone()
        if row is not None:
            seconds[row[0]] = seconds.get(row[0], 0) + now - before
            seconds["fenced"] = seconds.get("fenced", 0) + (now - before if row[1] else 0)
            if row[0] in _ENDED:
                return seconds, row
        before = now
        time.sleep(_LOOK_S)
    raise StackError("the move of the benchmark did not end in time; run with fewer --rows")

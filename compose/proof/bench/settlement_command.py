"""``millrace bench settlement``: a generated report against as many captures, from the file to matched lines.

Measured is what ``millrace reconcile`` does with a report before anything is posted: reading, matching, keeping.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import psycopg
import typer

from compose.proof import limits as proof_limits
from compose.proof.bench.options import AsJson, Home
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from compose.proof.bench.world import World

_DATABASE: Final = "bench_settlement"
_COPY_ATTEMPTS: Final = (
    "copy processor_attempt (intent_id, attempt, kind, status, operation_id, processor, amount, currency,"
    " payment_method, parent_ref, final, provider_ref, error_code, created_at, updated_at) from stdin"
)
#: of every so many lines one is short, one is paid twice and one is missing
_FAULT_EVERY: Final = 10_000
_FAULTS: Final = ("short", "duplicate", "missing")


def settlement(
    as_json: AsJson = False,
    lines: Annotated[
        int, typer.Option(min=1_000, max=proof_limits.BENCH_SETTLEMENT_LINES_MAX, help="Captures in the report.")
    ] = proof_limits.BENCH_SETTLEMENT_LINES_DEFAULT,
    home: Home = None,
) -> None:
    """Measure reconciliation: lines matched per second, and the memory that it took."""
    from compose.proof.bench.world import bench_world  # noqa: PLC0415 - the help needs none of it

    with bench_world(home) as world:
        result = bench_settlement(world, lines)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"{result['lines']:,} lines in {result['seconds']} s: {result['lines_per_s']:,} lines/s,"
            f" {result['matched']:,} matched, {result['discrepancies']} discrepancies, {result['memory_grown_mb']} MB;"
            f" {result['lines_per_cpu_s']:,} lines per CPU second (own {result['cpu_s']} s,"
            f" Postgres {result['postgres_cpu_s']} s)"
        )
    if not result["found_as_planted"]:
        raise typer.Exit(1)


def bench_settlement(world: World, count: int) -> dict[str, Any]:
    """Generates, takes in, takes in again, and compares what was found with what was planted."""
    from compose.proof.bench.cpu import cpu_seconds  # noqa: PLC0415
    from reconciliation.payments.settlement.ingest import take_in  # noqa: PLC0415
    from reconciliation.payments.settlement.sources import READERS, fetched_file  # noqa: PLC0415
    from reconciliation.payments.settlement.store import found_table, keep_found, missing_find  # noqa: PLC0415

    dsn = world.database(_DATABASE)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder,
            psycopg.connect(dsn, autocommit=True) as connection,
        ):
            path = Path(folder) / "report.csv"
            planted = _generate(connection, path, count)
            connection.execute(f"set work_mem = '{payments_limits.SETTLEMENT_WORK_MEM_MB}MB'")
            memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            session = {"session": [connection.info.backend_pid]}
            began, own_began, session_began = time.monotonic(), time.process_time(), cpu_seconds(session)["session"]
            with path.open("rb") as stream:
                taken = take_in(connection, fetched_file("simulator", "rpt_bench", path), READERS["simulator"](stream))
            seconds = time.monotonic() - began
            own, session_cpu = time.process_time() - own_began, cpu_seconds(session)["session"] - session_began
            with found_table(connection):
                missing_find(connection, "simulator")
                keep_found(connection, "simulator", "rpt_bench", [])
            with_missing = time.monotonic() - began
            memory_grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
            found: dict[str, int] = dict(
                connection.execute("select class, count(*) from settlement_discrepancy group by 1").fetchall()
            )
    finally:
        world.drop(_DATABASE)
    return {
        "lines": taken.lines,
        "matched": taken.matched,
        "seconds": round(seconds, 2),
        "seconds_with_missing": round(with_missing, 2),
        "lines_per_s": round(taken.lines / seconds),
        "cpu_s": round(own, 2),
        "postgres_cpu_s": round(session_cpu, 2),
        "lines_per_cpu_s": round(taken.lines / (own + session_cpu)),
        "memory_grown_mb": round(memory_grown / 1_024),
        "discrepancies": sum(found.values()),
        "found_as_planted": found == planted,
    }


def _generate(connection: psycopg.Connection, path: Path, count: int) -> dict[str, int]:
    """Captures in the database, their report in the file; returns how many faults of each class were planted."""
    planted: dict[str, int] = {}
    with path.open("w") as file, connection.cursor() as cursor, cursor.copy(_COPY_ATTEMPTS.encode()) as copy:
        file.write("line_id,report_id,type,operation_id,reference,provider_ref,currency,gross,fee,net,created\n")
        for n in range(count):
            name, amount = f"{n * 2_654_435_761 % 2**32:08x}{n:018x}", 1_000 + n % 5_000
            operation = f"op_{name}_1"
            at = f"{1_790_000_000 + n // 1_000}.{n % 1_000:03d}"
            copy.write(
                f"pi_{name}\t1\tpurchase\tcaptured\t{operation}\tsimulator\t{amount}\tUSD\ttok_sim_approve\t\\N\tt"
                f"\tsim_{name}\t\\N\t{_timestamp(at)}\t{_timestamp(at)}\n"
            )
            fault = _FAULTS[n // _FAULT_EVERY % len(_FAULTS)] if n % _FAULT_EVERY == _FAULT_EVERY // 2 else None
            if fault is not None:
                planted[fault] = planted.get(fault, 0) + 1
            if fault == "missing":
                continue
            fee = (amount * 60 + 5_000) // 10_000
            gross = amount - 7 if fault == "short" else amount
            row = f"rpt_bench,charge,{operation},pi_{name},sim_{name},USD,{gross},{fee},{gross - fee},{at}\n"
            file.write(f"ln_{n:09d},{row}")
            if fault == "duplicate":
                file.write(f"ln_{n:09d}d,{row}")
    connection.execute("analyze processor_attempt")
    return planted


def _timestamp(seconds: str) -> str:
    """As Postgres reads it: the epoch and an interval would be slower than this text."""
    whole, _, rest = seconds.partition(".")
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(whole))) + f".{rest}+00"

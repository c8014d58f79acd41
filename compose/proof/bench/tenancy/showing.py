"""The figures of ``millrace bench tenancy`` for people: each that has a goal stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compose.proof import limits

if TYPE_CHECKING:
    from collections.abc import Iterator


def lines(result: dict[str, Any]) -> Iterator[str]:
    """What is printed where JSON was not asked for."""
    made, fair, move = result["provisioning"], result["fairness"], result["move"]
    yield (
        f"{made['tenants']:,} tenants made: {_beside_goal(made, 'tenants_per_s', '/s')}; a page of the list"
        f" {made['list_page_p99_ms']} ms (p99 of {made['list_pages']})"
    )
    yield (
        f"{move['rows']:,} rows moved: {move['copied_rows_per_s']:,} rows/s copied,"
        f" compared {_beside_goal(move, 'verified_rows_per_s', '/s')};"
        f" no writes for {_beside_goal(move, 'write_pause_ms', ' ms')}"
    )
    yield (
        f"p99 of the others {fair['alone']['p99_ms']} ms alone, {fair['beside_noisy']['p99_ms']} ms beside a tenant"
        f" at {limits.BENCH_NOISY_TIMES}x: {_beside_goal(fair, 'p99_ratio', 'x')};"
        f" noticed: {', '.join(fair['noticed']) or 'nobody'};"
        f" commands left {fair['alone']['sent_late_p99_ms']} and"
        f" {fair['beside_noisy']['sent_late_p99_ms']} ms late (p99)"
    )
    yield (
        f"{result['sent']:,} events of {result['tenants']} tenants, {result['counted']:,} counted once:"
        f" in Postgres after {result['seconds']} s ({result['events_per_s']:,}/s),"
        f" in ClickHouse after {result['clickhouse_seconds']} s"
        f" ({_beside_goal(result, 'clickhouse_events_per_s', '/s')});"
        f" CPU seconds: own {result['cpu_s']}, Postgres {result['postgres_cpu_s']}"
    )
    for read in result["reads"]:
        yield (
            f"{read['rows']} rows of one tenant: {read['isolated_us']} us,"
            f" without isolation {read['plain_us']} us: {_beside_goal(read, 'ratio', 'x')}"
        )


def _beside_goal(figures: dict[str, Any], name: str, unit: str) -> str:
    return f"{figures[name]:,}{unit} (goal {figures[f'{name}_goal']:,}{unit})"

"""The figures of ``millrace bench tenancy``: each with a goal stands beside it, and says how much of it was reached."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from compose.proof.bench import new_database
from compose.proof.bench.goals import at_least, at_most
from compose.proof.bench.tenancy import load, reads
from compose.proof.bench.tenancy.showing import lines
from sinks.streams.newest_events import NewestEvents

RESULT = {
    "provisioning": {
        "tenants": 5_000,
        **at_least("tenants_per_s", 250, 500),
        "list_pages": 50,
        "list_page_p99_ms": 15.0,
    },
    "move": {
        "rows": 1_000_000,
        "copied_rows_per_s": 60_000,
        **at_least("verified_rows_per_s", 443_535, 50_000),
        **at_most("write_pause_ms", 64.6, 1_000),
    },
    "fairness": {
        "alone": {"p99_ms": 10.0, "sent_late_p99_ms": 0.4},
        "beside_noisy": {"p99_ms": 14.1, "sent_late_p99_ms": 7.5},
        **at_most("p99_ratio", 1.41, 1.5),
        "noticed": {},
    },
    "sent": 105_000,
    "tenants": 50,
    "counted": 100_000,
    "seconds": 3.0,
    "events_per_s": 35_000,
    "clickhouse_seconds": 4.0,
    **at_least("clickhouse_events_per_s", 26_250, 20_000),
    "cpu_s": 2.3,
    "postgres_cpu_s": 1.2,
    "reads": [{"rows": 1, "isolated_us": 90, "plain_us": 56, **at_most("ratio", 90 / 56, 1.25)}],
}


def test_each_figure_stands_beside_its_goal() -> None:
    said = "\n".join(lines(RESULT))
    for part in (
        "250/s (goal 500/s)",
        "443,535/s (goal 50,000/s)",
        "64.6 ms (goal 1,000 ms)",
        "1.41x (goal 1.5x)",
        "left 0.4 and 7.5 ms late",
        "26,250/s (goal 20,000/s)",
        "1.61x (goal 1.25x)",
    ):
        assert part in said


def test_of_a_goal_one_is_the_goal() -> None:
    assert at_least("made", 250, 500) == {"made": 250, "made_goal": 500, "made_of_goal": 0.5}
    assert at_most("late", 30.0, 15.0) == {"late": 30.0, "late_goal": 15.0, "late_of_goal": 2.0}
    assert [at_most("written", each, 0.0)["written_of_goal"] for each in (0, 3)] == [1.0, 4.0]


def test_processes_on_a_new_database_do_not_take_it_for_an_older_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement has a database of its own, and Kafka was told of those before: an owner of ours would halt."""
    started: list[list[str]] = []

    def popen(command: list[str], **_: Any) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(kill=lambda: None, wait=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", popen)
    world: Any = SimpleNamespace(settings=SimpleNamespace(environment=dict))
    with load.process(world, "postgresql://new", "tenancy_owner"):
        pass
    assert [command[1:] for command in started] == [["-m", new_database.__name__, "tenancy_owner", "--instance", "0"]]
    monkeypatch.setattr(NewestEvents, "seqs", NewestEvents.seqs)  # is as before afterwards
    new_database.compare_nothing()
    assert NewestEvents.seqs(None, [0, 1]) == {}  # type: ignore[arg-type]


def test_a_read_is_compared_with_the_same_statement_and_nothing_of_its_isolation() -> None:
    """Where the statement is another one, it is not compared with what still proves something."""
    for query, of_its_own in ((reads.ONE, ") is true"), (reads.SOME, "array[%(tenant_id)s")):
        plain = reads.without_isolation(query)
        for part in ("%(context)s", "set_config", "tenancy_pool.", of_its_own):
            assert (part in query, part in plain) == (True, False), part
        with pytest.raises(ValueError, match="isolation"):
            reads.without_isolation(query.replace("true", "false"))

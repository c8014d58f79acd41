"""Exactly once under kills: of the sink at every step, of ClickHouse at every step, and with a frozen sink."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from pydantic import SecretStr

from sinks import limits
from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.gate import matrix
from tests.servers import own_servers, process_id, without
from tests.worlds.sink_process import sink_process
from tests.worlds.sink_stage import Stage, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.settings.settings import Settings
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.faults]

STEPS = ("sink_after_plan", "sink_after_insert", "sink_after_mark")


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A ClickHouse that is killed; all else is the run's."""
    with own_servers(tmp_path_factory.mktemp("clickhouse"), **without("kafka", "postgres", "redis")) as settings:
        yield settings


@pytest.fixture
def stage(stack: World, clickhouse: Settings) -> Iterator[Stage]:
    url = SecretStr(clickhouse.addresses().clickhouse_url)
    settings = stack.settings.model_copy(update={"clickhouse_url": url})
    with new_stage(settings, seed=31, payments=60) as made:
        made.store_and_publish()
        yield made


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The successor need not wait long for a process that is known to be dead."""
    monkeypatch.setattr(limits, "SINK_LEASE_MS", 1_000)


def expect_exactly_once(stage: Stage) -> None:
    eventually(stage.is_caught_up, within_s=40, what="the sink catches up")
    assert stage.counts() == stage.expected_counts()
    others = [f for f in stage.check("18", "published", "outbox").invariants if f.gaps]
    assert others == []


@pytest.mark.parametrize("step", matrix(STEPS, "sink_after_insert".__eq__))
@pytest.mark.usefixtures("short_lease")
def test_a_sink_killed_at_any_step_loses_and_doubles_nothing(stage: Stage, step: str) -> None:
    """SIGKILL between plan, insert and mark; the successor finds the plan and completes exactly that block."""
    with sink_process(stage.sink_settings("killed"), step) as process:
        assert process.wait(timeout=patient(40)) == -signal.SIGKILL
    opened = stage.value("select count(*) from sink_plan where state = 'planned'")
    assert opened == (0 if step == "sink_after_mark" else 1)
    rows = stage.counts()["events"][0]
    assert (rows == 0) is (step == "sink_after_plan")
    stage.world.payments_made(10)
    stage.store_and_publish()
    with stage.sink("successor") as (_, recorder):
        expect_exactly_once(stage)
    assert [missing for _, missing in recorder.recoveries] == {
        "sink_after_plan": [sum(n for n, _ in stage.counts().values()) - rows_since(stage)],
        "sink_after_insert": [0],
        "sink_after_mark": [],
    }[step]
    assert stage.value("select count(*) from recovery_checkpoint where name like 'sink-plan-%'") == opened


def rows_since(stage: Stage) -> int:
    """Rows of the plans after the first."""
    query = "select coalesce(sum(value::int), 0) from sink_plan, jsonb_each_text(rows) where plan_id > 1"
    return int(stage.value(query))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.usefixtures("short_lease")
def test_a_sink_killed_again_and_again_loses_and_doubles_nothing(stage: Stage) -> None:
    """Every life ends at another step, the restarts included."""
    for number in range(4):
        stage.world.payments_made(8)
        stage.store_and_publish(repeat_last=20)
        with sink_process(stage.sink_settings(f"life-{number}"), STEPS[number % 3]) as process:
            assert process.wait(timeout=patient(40)) == -signal.SIGKILL
        stage.sql("update sink_fence set heartbeat_at = '-infinity'")  # as if its lease had run out by now
    with stage.sink("last"):
        expect_exactly_once(stage)


@pytest.mark.parametrize("step", matrix(STEPS, "sink_after_plan".__eq__))
def test_clickhouse_killed_at_any_step_loses_and_doubles_nothing(stage: Stage, clickhouse: Settings, step: str) -> None:
    """ClickHouse goes away with SIGKILL between plan, insert and mark; the sink waits for it and goes on."""
    killed: list[int] = []

    def kill_clickhouse(name: str) -> None:
        if name == step and not killed:
            killed.append(process_id(clickhouse, "clickhouse"))
            os.kill(killed[0], signal.SIGKILL)
            # The next statement meets a dead server, not a dying one.
            eventually(
                lambda: not psutil.pid_exists(killed[0]) or process_id(clickhouse, "clickhouse") != killed[0], 20
            )

    with stage.sink(fail_point=kill_clickhouse) as (_, recorder):
        eventually(lambda: killed, within_s=40)
        stage.world.payments_made(20)
        stage.store_and_publish()
        eventually(stage.is_caught_up, within_s=50, what="the sink catches up")
    assert recorder.events or recorder.recoveries
    expect_exactly_once(stage)


@pytest.mark.usefixtures("short_lease")
def test_a_frozen_sink_that_wakes_up_is_fenced(stage: Stage) -> None:
    """SIGSTOP past a take-over, then SIGCONT: the zombie finds out, changes nothing, and stands by."""
    with sink_process(stage.sink_settings("zombie")) as zombie:
        becomes(lambda: stage.value("select count(*) from sink_fence where owner_id = 'zombie'"), 1, 40)
        freeze(zombie.pid)
        with stage.sink("successor") as (_, recorder):
            eventually(recorder.fed.is_set, within_s=30)
            stage.world.payments_made(20)
            stage.store_and_publish()
            eventually(stage.is_caught_up, within_s=40)
            zombie.send_signal(signal.SIGCONT)
            stage.world.payments_made(20)
            stage.store_and_publish()
            expect_exactly_once(stage)
            assert stage.value("select owner_id from sink_fence where sink = 'clickhouse'") == "successor"
            assert zombie.poll() is None
        # The successor ended with its block, so the zombie, which stood by, feeds again.
        stage.world.payments_made(5)
        stage.store_and_publish()
        expect_exactly_once(stage)
        zombie.send_signal(signal.SIGTERM)
        assert zombie.wait(timeout=patient(30)) == 0


@pytest.mark.proof
@pytest.mark.usefixtures("short_lease")
def test_a_killed_sink_is_replaced_within_its_lease(stage: Stage) -> None:
    with sink_process(stage.sink_settings("killed")) as process:
        eventually(stage.is_caught_up, within_s=40)
        process.kill()
    stage.world.payments_made(5)
    stage.store_and_publish()
    with stage.sink("successor"):
        eventually(stage.is_caught_up, within_s=10)
    assert stage.counts() == stage.expected_counts()

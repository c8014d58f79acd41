"""The sweep of cases that runs by itself: as a person's, once an hour whoever is at it, and whatever is away."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from reconciliation.payments.repair.sweep_loop import SweepLoop, SweepMetrics
from schemas.payments import limits
from tests.eventually import eventually, patient
from tests.worlds.sink_stage import Stage, cloned, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
AGED = ("aged", "aged_payouts", "aged_disputes")
LONG_AGO = "update scheduled_run set done_at = now() - interval '1 year'"
A_DISPUTE = "update dispute set state = 'won' where id = (select min(id) from dispute where funds = 'withdrawn')"


@pytest.fixture(scope="module")
def history(stack: World) -> Iterator[Stage]:
    """Payments, payouts and disputes of long ago, of which each kind of case is still to be opened."""
    with new_stage(stack.settings, payments=60) as stage:
        with psycopg.connect(stage.dsn(), autocommit=True) as connection:
            stage.world.store(connection)
        stage.sql(A_DISPUTE)
        yield stage


@pytest.fixture
def stage(history: Stage) -> Iterator[Stage]:
    with cloned(history) as copied:
        yield copied


class Sweeper:
    """A worker's loop in this process."""

    def __init__(self, stage: Stage, name: str = "worker-1") -> None:
        self.registry = CollectorRegistry()
        self.now_s = 1_000.0
        metrics = SweepMetrics(self.registry)
        self.loop = SweepLoop(stage.dsn("millrace_worker"), name, metrics, clock=lambda: self.now_s)

    def metric(self, name: str) -> float:
        value = self.registry.get_sample_value(f"millrace_case_sweep_{name}")
        assert value is not None
        return value

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self.loop.run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(patient(20))
        assert not thread.is_alive()


def rows(stage: Stage, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def cases(stage: Stage) -> list[str]:
    """The kinds of what is open, one for each case."""
    return [kind for (kind,) in rows(stage, "select kind from repair_case where state <> 'resolved' order by kind")]


def audited(stage: Stage) -> list[tuple[Any, ...]]:
    query = "select actor, db_role, action, outcome, details ->> 'opened', details ->> 'process' from audit_log order by seq"
    return rows(stage, query)


def test_all_that_waits_too_long_has_its_case_and_the_sweep_is_in_the_audit_log(stage: Stage) -> None:
    """By the worker's role, which may read for it what it needs and no more."""
    assert all(stage.finding(identity).gaps for identity in AGED)
    sweeper = Sweeper(stage)
    assert sweeper.loop.round() == pytest.approx(limits.CASE_SWEEP_INTERVAL_S, abs=patient(60))
    assert [stage.finding(identity).gaps for identity in AGED] == [0, 0, 0]
    kinds = cases(stage)
    assert set(kinds) == {"aged_balance", "aged_dispute", "aged_payout"}
    assert audited(stage) == [("webhook_worker", "millrace_worker", "case.sweep", "done", str(len(kinds)), "worker-1")]
    assert stage.finding("audit").gaps == 0
    assert sweeper.metric("opened_total") == len(kinds)
    done_at = float(stage.value("select extract(epoch from done_at)::float8 as at from scheduled_run"))
    assert sweeper.metric("done_at_seconds") == done_at


def test_another_one_follows_when_an_hour_is_over_and_none_before(stage: Stage) -> None:
    first, second = Sweeper(stage), Sweeper(stage, "worker-2")
    first.loop.round()
    stage.sql("update repair_case set state = 'resolved', resolved_at = '2001-01-01', resolved_by = 'ann'")
    assert second.loop.round() is not None
    assert cases(stage) == [], "it was done by another process just now"
    assert second.metric("done_at_seconds") == first.metric("done_at_seconds")
    for moment in (
        "now() - interval '61 minutes'",
        "now() + interval '1 year'",
    ):  # the latter by a clock that was wrong
        before = len(audited(stage))
        stage.sql(f"update scheduled_run set done_at = {moment}")
        second.loop.round()
        assert len(audited(stage)) == before + 1
        assert cases(stage)


def test_of_many_at_once_one_sweeps(stage: Stage) -> None:
    """Beside a person who does so, too."""
    sweepers = [Sweeper(stage, f"worker-{n}") for n in range(6)]
    for _ in range(5):
        stage.sql(LONG_AGO)
        before = len(audited(stage))
        with ThreadPoolExecutor(len(sweepers)) as pool:
            list(pool.map(lambda one: one.loop.round(), sweepers))
        assert len(audited(stage)) == before + 1
    found = rows(stage, "select kind, reference from repair_case")
    assert len(found) == len(set(found))


def test_who_comes_while_another_is_at_it_leaves_and_comes_again(stage: Stage) -> None:
    with psycopg.connect(stage.dsn()) as blocked:
        blocked.execute("lock table dispute in access exclusive mode")
        first, second = Sweeper(stage), Sweeper(stage, "worker-2")
        with ThreadPoolExecutor(1) as pool:
            at_it = pool.submit(first.loop.round)
            waits = "select count(*) as n from pg_locks where not granted and database = (select oid from pg_database"
            eventually(lambda: stage.value(f"{waits} where datname = current_database())") == 1, 20, what="it waits")
            assert second.loop.round() is None
            blocked.rollback()
            assert at_it.result(patient(20)) is not None
    assert [row[-1] for row in audited(stage)] == ["worker-1"]


def test_cut_in_the_midst_it_leaves_nothing_and_is_done_as_a_whole(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes when balances and payouts have their cases and disputes do not."""
    monkeypatch.setattr(limits, "CASE_SWEEP_RETRY_S", 0.1)
    sweeper = Sweeper(stage)
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'worker-1' and wait_event_type = 'Lock'"
    with psycopg.connect(stage.dsn()) as blocked:
        blocked.execute("lock table dispute in access exclusive mode")
        with sweeper.running():
            eventually(lambda: rows(stage, cut), 20, what="it was cut")
            eventually(lambda: sweeper.metric("errors_total") >= 1, 20, what="it noticed")
            assert cases(stage) == []
            assert audited(stage) == []
            blocked.rollback()
            eventually(lambda: audited(stage), 20, what="it was done")
    assert len(audited(stage)) == 1
    assert [stage.finding(identity).gaps for identity in AGED] == [0, 0, 0]
    found = rows(stage, "select kind, reference from repair_case")
    assert len(found) == len(set(found))


def test_a_postgres_that_is_away_is_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CASE_SWEEP_RETRY_S", 0.1)
    sweeper = Sweeper(stage)
    with psycopg.connect(stage.settings.addresses().postgres_superuser_dsn, autocommit=True) as server:
        server.execute(f"alter database {stage.database} allow_connections false".encode())
        with sweeper.running():
            eventually(lambda: sweeper.metric("errors_total") >= 2, 20, what="it was refused")
            server.execute(f"alter database {stage.database} allow_connections true".encode())
            eventually(lambda: audited(stage), 20, what="it was done")


def test_it_says_when_none_has_succeeded_for_long_and_not_before(stage: Stage) -> None:
    """A stack that was down for a year is not late: its process has only just started."""
    stage.sql(LONG_AGO, "revoke execute on function case_sweep_done from millrace_worker")
    sweeper = Sweeper(stage)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        sweeper.loop.round()
    assert cases(stage) == []
    assert sweeper.loop.why_late() is None
    sweeper.now_s += limits.CASE_SWEEP_STUCK_S - 1
    assert sweeper.loop.why_late() is None
    sweeper.now_s += 1
    assert sweeper.loop.why_late() == "cases of money that waits were not swept for 6 h; the log says why"
    stage.sql("grant execute on function case_sweep_done to millrace_worker")
    Sweeper(stage, "worker-2").loop.round()
    sweeper.loop.round()
    assert sweeper.loop.why_late() is None, "another process did it"
    assert len(audited(stage)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "update scheduled_run set done_at = now()",
        "select audit_append('webhook_worker', 'case.sweep', 'cases', 'done', '{}')",
        "select destination from payout",
        "select txn_id from ledger_entry",
        "update payout set state = 'paid'",
    ],
)
def test_the_worker_may_not_do_more_than_it_needs(stage: Stage, statement: str) -> None:
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with psycopg.connect(stage.dsn("millrace_worker"), autocommit=True) as worker, refused:
        worker.execute(statement.encode())

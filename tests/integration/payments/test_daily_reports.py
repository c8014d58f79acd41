"""Reports that are fetched without a person: each day once whoever is at it, and a case where one is not there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from reconciliation.payments.daily import days
from reconciliation.payments.daily.loop import DailyMetrics, DailyReports
from reconciliation.payments.settlement.run import ReconcileSettings
from schemas.payments import limits
from schemas.senders import RECONCILE
from tests.migrated import in_database
from tests.worlds.payments.report_host import ReportHost, report_host
from tests.worlds.payments.settlement_world import SettlementWorld, line_of, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
NAME = "reports:simulator"


class Daily:
    """A database in which money moved long ago, a processor, and the loops of some workers."""

    def __init__(self, stack: World, world: SettlementWorld, host: ReportHost) -> None:
        self.stack, self.world, self.host = stack, world, host
        database = urlsplit(world.superuser_dsn).path.strip("/")
        role = stack.settings.addresses().postgres_dsns["millrace_settlement"]
        self.dsn = in_database(role, database)
        # a day that began an hour ago, and one whose deadline is over
        self.now = datetime.now(UTC)
        self.young = (self.now - timedelta(hours=1)).hour
        self.late = (self.now - timedelta(seconds=limits.REPORTS_DEADLINE_S, hours=1)).hour
        self.now_s = 1_000.0

    def loop(self, hour: int, name: str = "worker-1") -> DailyReports:
        self.registry = CollectorRegistry()
        settings = ReconcileSettings(
            postgres_dsn=self.dsn,
            kafka=self.stack.settings.kafka_as(RECONCILE),
            processors={"simulator": self.host.url},
            decision_wait_s=0.1,
        )
        metrics = DailyMetrics(self.registry)
        return DailyReports(settings, {"simulator": hour}, name, metrics, clock=lambda: self.now_s)

    def last(self, hour: int) -> date:
        return days.last_due(self.now, hour)

    def done(self, day: date, **changes: object) -> None:
        """As if this day were the last that is over."""
        self.world.sql("delete from scheduled_run where name = %s", NAME)
        self.world.sql("insert into scheduled_run (name, day) values (%s, %s)", NAME, day)
        for column, value in changes.items():
            self.world.sql(f"update scheduled_run set {column} = %s where name = '{NAME}'", value)

    def row(self) -> tuple[Any, ...]:
        return self.world.sql("select day, tries, note from scheduled_run where name = %s", NAME)[0]

    def cases(self) -> list[Any]:
        return [row[0] for row in self.world.sql("select reference from repair_case order by 1")]

    def audited(self) -> list[tuple[Any, ...]]:
        return self.world.sql("select db_role, object, details from audit_log order by seq")


@pytest.fixture
def daily(stack: World) -> Iterator[Daily]:
    with settlement_world(stack.settings) as world, report_host() as host:
        world.capture()
        yield Daily(stack, world, host)


def test_the_first_look_begins_with_the_day_that_is_due(daily: Daily) -> None:
    last = daily.last(daily.young)
    daily.host.make("rpt_1", daily.now)
    assert daily.loop(daily.young).look("simulator") == 0
    assert daily.row() == (last, 0, None)
    assert daily.host.downloads == ["rpt_1"]
    details = {"process": "worker-1", "days": [str(last)], "missing": []}
    assert daily.audited() == [("millrace_settlement", NAME, details)]
    assert daily.cases() == []


def test_a_day_that_is_over_is_not_asked_for_again(daily: Daily) -> None:
    daily.host.make("rpt_1", daily.now)
    first, second = daily.loop(daily.young), daily.loop(daily.young, "worker-2")
    first.look("simulator")
    daily.host.make("rpt_2", daily.now)
    due_s = second.look("simulator")
    assert 0 < due_s <= 86_400
    assert daily.host.downloads == ["rpt_1"]
    begun = days.begins(daily.last(daily.young), daily.young).timestamp()
    metric = daily.registry.get_sample_value("millrace_reports_done_day_seconds", {"processor": "simulator"})
    assert metric == begun


def test_of_many_at_once_one_ends_the_day(daily: Daily) -> None:
    daily.done(daily.last(daily.late) - 2 * days.A_DAY)
    loops = [daily.loop(daily.late, f"worker-{n}") for n in range(5)]
    with ThreadPoolExecutor(len(loops)) as pool:
        list(pool.map(lambda one: one.look("simulator"), loops))
    assert len(daily.audited()) == 1
    assert len(daily.cases()) == 2
    assert daily.row()[0] == daily.last(daily.late)


def test_who_reconciled_meanwhile_ends_no_day_of_another(daily: Daily) -> None:
    """Its session was lost, and with it its turn: the row stands elsewhere by now."""
    last = daily.last(daily.late)
    daily.done(last - days.A_DAY)
    late = daily.loop(daily.late)
    late._on_step = lambda step: daily.done(last) if step == "fetched" else None
    late.look("simulator")
    assert (daily.audited(), daily.cases()) == ([], [])


def test_a_report_that_is_not_there_yet_is_asked_for_ever_more_rarely_until_it_is(daily: Daily) -> None:
    last = daily.last(daily.young)
    daily.done(last - days.A_DAY)
    loop = daily.loop(daily.young)
    assert loop.look("simulator") == limits.REPORTS_RETRY_S
    assert daily.row() == (last - days.A_DAY, 1, "the report is not there yet")
    assert 0 < daily.loop(daily.young, "worker-2").look("simulator") <= limits.REPORTS_RETRY_S
    assert daily.row()[1] == 1, "not tried by another one at once"
    daily.done(last - days.A_DAY, tries=3, tried_at=daily.now - timedelta(days=1))
    assert loop.look("simulator") == 8 * limits.REPORTS_RETRY_S
    daily.done(last - days.A_DAY, tries=4, tried_at=daily.now - timedelta(days=1))
    daily.host.make("rpt_1", None)
    assert loop.look("simulator") == 0
    assert daily.row() == (last, 0, None)
    assert daily.cases() == []


def test_without_a_report_by_its_deadline_it_is_a_case_once(daily: Daily) -> None:
    last = daily.last(daily.late)
    daily.done(last - days.A_DAY)
    daily.host.make("rpt_before", days.deadline(last - days.A_DAY, daily.late))  # that of the day before
    loop = daily.loop(daily.late)
    assert loop.look("simulator") == 0
    assert daily.cases() == [f"simulator:{last}"]
    kind, processor, evidence = daily.world.sql("select kind, processor, evidence from repair_case")[0]
    assert (kind, processor, evidence["day"]) == ("report_missing", "simulator", str(last))
    assert evidence["reason"] == "no report of this day was made"
    assert daily.registry.get_sample_value("millrace_reports_missing_total") == 1
    daily.world.sql("update repair_case set state = 'resolved', resolved_at = now(), resolved_by = 'ann'")
    loop.look("simulator")
    assert len(daily.cases()) == 1
    assert daily.host.downloads == ["rpt_before"]


def test_a_processor_that_owes_nothing_owes_no_report(daily: Daily) -> None:
    daily.world.sql("delete from processor_attempt")
    daily.done(daily.last(daily.late) - 3 * days.A_DAY)
    assert daily.loop(daily.late).look("simulator") == 0
    assert daily.cases() == []
    assert daily.row()[0] == daily.last(daily.late)


def test_missed_days_are_caught_up_with_and_only_those_without_a_report_are_cases(daily: Daily) -> None:
    last = daily.last(daily.late)
    daily.done(last - 3 * days.A_DAY)
    for back in (2, 0):
        daily.host.make(f"rpt_{back}", days.begins(last - back * days.A_DAY, daily.late))
    assert daily.loop(daily.late).look("simulator") == 0
    assert daily.cases() == [f"simulator:{last - days.A_DAY}"]
    assert daily.host.downloads == ["rpt_2", "rpt_0"]


def test_no_more_days_are_cases_than_the_bound(daily: Daily) -> None:
    daily.done(date(2020, 1, 1))
    daily.loop(daily.late).look("simulator")
    assert len(daily.cases()) == limits.REPORTS_CATCH_UP_DAYS


def test_a_processor_that_is_away_is_given_up_after_enough_tries_past_the_deadline(daily: Daily) -> None:
    last = daily.last(daily.late)
    daily.done(last - days.A_DAY)
    daily.host.is_away = True
    loop = daily.loop(daily.late)
    assert loop.look("simulator") == limits.REPORTS_RETRY_S
    assert (daily.cases(), daily.row()[0]) == ([], last - days.A_DAY)
    daily.done(last - days.A_DAY, tries=limits.REPORTS_TRIES_MIN - 1)
    assert loop.look("simulator") == 0
    assert daily.cases() == [f"simulator:{last}"]
    assert "cannot be listed" in daily.world.sql("select evidence ->> 'reason' from repair_case")[0][0]
    # what it made meanwhile is taken in with the next day
    daily.host.is_away = False
    daily.host.make("rpt_late", daily.now - timedelta(days=1))
    daily.done(last - days.A_DAY)
    loop.look("simulator")
    assert daily.host.downloads == ["rpt_late"]


def test_lines_that_no_owner_decides_keep_the_day_open(daily: Daily) -> None:
    last = daily.last(daily.young)
    daily.done(last - days.A_DAY)
    daily.host.make("rpt_1", daily.now, [line_of(daily.world.attempts[0], "ln_1")])
    assert daily.loop(daily.young).look("simulator") == limits.REPORTS_RETRY_S
    assert daily.row()[:2] == (last - days.A_DAY, 1), "its report is there, and what it says is not posted"


def test_what_nobody_foresaw_is_told_and_tried_again(daily: Daily) -> None:
    last = daily.last(daily.young)
    daily.done(last - days.A_DAY)
    daily.host.make("rpt_1", daily.now, [line_of(daily.world.attempts[0], "ln_1")])
    daily.world.sql("revoke insert on settlement_line from millrace_settlement")
    assert daily.loop(daily.young).look("simulator") == limits.REPORTS_RETRY_S
    day, tries, note = daily.row()
    assert (day, tries) == (last - days.A_DAY, 1)
    assert note == "InsufficientPrivilege: permission denied for table settlement_line"


def test_it_says_when_a_day_is_not_over_for_long(daily: Daily) -> None:
    last = daily.last(daily.young)
    daily.done(last - days.A_DAY)
    daily.host.is_away = True
    loop = daily.loop(daily.young)
    loop.look("simulator")
    assert loop.why_late() is None
    daily.now_s += limits.REPORTS_STUCK_S
    assert loop.why_late() == "reports of simulator were not reconciled for 8 h; the log says why"
    daily.done(last)
    loop.look("simulator")
    assert loop.why_late() is None


@pytest.mark.parametrize(
    "statement",
    [
        f"update scheduled_run set day = '2030-01-01' where name = '{NAME}'",
        "select audit_append('webhook_worker', 'settlement.reconcile', 'x', 'done', '{}')",
        "update processor_attempt set status = 'refunded'",
        "delete from repair_case",
        "insert into ledger_txn default values",
        "select * from payout_destination",
    ],
)
def test_its_role_may_not_do_more_than_it_needs(daily: Daily, statement: str) -> None:
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with psycopg.connect(daily.dsn, autocommit=True) as worker, refused:
        worker.execute(statement.encode())

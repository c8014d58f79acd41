"""Real workers fetch reports by themselves: killed anywhere, several at once, each report is posted once."""

from __future__ import annotations

import json
import signal
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.daily import days
from schemas import identity
from schemas.payments import limits
from tests.eventually import becomes, patient
from tests.worlds.payments.report_host import ReportHost, report_host
from tests.worlds.payments.settlement_world import line_of, payout_of
from tests.worlds.payments.webhook_world import WebhookWorld, webhook_system, webhooks
from tests.worlds.public_system import Merchant

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["webhook_system", "webhooks"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]
NAME = "reports:simulator"


@pytest.fixture
def host() -> Iterator[ReportHost]:
    with report_host() as made:
        yield made


@pytest.fixture
def merchant(webhooks: WebhookWorld) -> Iterator[Merchant]:
    made = webhooks.system.merchant()
    yield made
    made.http.close()


def captured(webhooks: WebhookWorld, merchant: Any) -> dict[str, Any]:
    """A payment that succeeded, as a line of a report tells it."""
    intent_id = webhooks.intent(merchant)
    event_id = webhooks.tell("charge.captured", **webhooks.charge(intent_id))
    webhooks.reaches(event_id, "applied")
    operation_id = identity.operation_id(intent_id, 1)
    attempt = {
        "kind": "purchase",
        "amount": 1_000,
        "currency": "USD",
        "intent_id": intent_id,
        "operation_id": operation_id,
        "provider_ref": f"ref_{operation_id}",
    }
    return line_of(attempt, f"ln_{uuid.uuid4().hex}")


def fetching(host: ReportHost, hour: int) -> dict[str, str]:
    return {
        "MILLRACE_PROCESSOR_URLS": json.dumps({"simulator": host.url}),
        "MILLRACE_PROCESSOR_REPORT_HOURS": json.dumps({"simulator": hour}),
    }


@pytest.mark.parametrize("fail_point", ["reports_begun", "reports_fetched", "reports_ended", "reports_done"])
def test_killed_at_any_point_and_two_at_once_each_report_is_posted_once_and_each_case_opened_once(
    webhooks: WebhookWorld, merchant: Merchant, host: ReportHost, fail_point: str
) -> None:
    """Two days were missed: of the younger one there is a report, of the older one none."""
    worker = webhooks.start()
    line = captured(webhooks, merchant)
    webhooks.end(worker)
    now = datetime.now(UTC)
    hour = (now - timedelta(seconds=limits.REPORTS_DEADLINE_S, hours=1)).hour
    last = days.last_due(now, hour)
    report_id = f"rpt_{uuid.uuid4().hex[:16]}"
    host.make(report_id, days.begins(last, hour), [line, payout_of([line], f"ln_{uuid.uuid4().hex}")])
    with webhooks.superuser() as connection:
        connection.execute("delete from scheduled_run where name = %s", (NAME,))
        connection.execute("delete from repair_case where kind = 'report_missing'")
        connection.execute("insert into scheduled_run (name, day) values (%s, %s)", (NAME, last - 2 * days.A_DAY))
        # money that moved before the older day began, and that no report names
        older = days.begins(last - days.A_DAY, hour) - timedelta(hours=1)
        connection.execute(
            "insert into processor_attempt (operation_id, intent_id, attempt, processor, amount, currency, kind, status,"
            " final, payment_method, created_at, updated_at)"
            " values (%s, %s, 1, 'simulator', 5, 'USD', 'purchase', 'captured', true, 'tok', %s, %s)",
            (f"op_{uuid.uuid4().hex}", f"pi_{uuid.uuid4().hex[:26]}", older, older),
        )
    before = audited(webhooks)
    victim = webhooks.start(MILLRACE_FAIL_POINT=fail_point, **fetching(host, hour))
    assert victim.wait(patient(60)) == -signal.SIGKILL
    is_over = fail_point == "reports_done"
    assert audited(webhooks) == before + is_over
    for _ in range(2):
        webhooks.start(**fetching(host, hour))
    becomes(lambda: webhooks.system.rows("select day from scheduled_run where name = %s", NAME), [(last,)], 90)
    webhooks.end_all()
    assert audited(webhooks) == before + 1
    settled = "select count(*) from ledger_txn where aggregate_key = %s and kind like 'settle%%'"
    assert webhooks.system.rows(settled, line["reference"]) == [(1,)]
    assert host.downloads == [report_id]
    cases = webhooks.system.rows("select reference from repair_case where kind = 'report_missing'")
    assert cases == [(f"simulator:{last - days.A_DAY}",)]


def audited(webhooks: WebhookWorld) -> int:
    with webhooks.superuser() as connection:
        return len(connection.execute("select from audit_log where object = %s", (NAME,)).fetchall())


def test_a_worker_without_an_hour_fetches_nothing(webhooks: WebhookWorld, host: ReportHost) -> None:
    host.make("rpt_1", None)
    webhooks.start(MILLRACE_PROCESSOR_URLS=json.dumps({"simulator": host.url}))
    event_id = webhooks.tell("charge.captured", provider_ref=f"f_{uuid.uuid4().hex}", amount=1, currency="USD")
    webhooks.reaches(event_id, "case")
    assert host.downloads == []

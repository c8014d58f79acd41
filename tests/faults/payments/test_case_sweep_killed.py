"""Real workers sweep cases by themselves: killed anywhere, several at once, and heard of when they cannot."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from typing import Any

import httpx
import pytest

from tests.eventually import becomes, eventually, patient
from tests.servers import clean_environment
from tests.worlds.payments.attempts_world import free_port
from tests.worlds.payments.webhook_world import WebhookWorld, webhook_system, webhooks

__all__ = ["webhook_system", "webhooks"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]

HINDERED = "revoke execute on function case_sweep_done from millrace_worker"
#: a worker of whom much is asked: it is late at once
IMPATIENT = (
    "from schemas.payments import limits; limits.CASE_SWEEP_STUCK_S = 0; limits.CASE_SWEEP_RETRY_S = 0.1;"
    " from compose.services import webhook_worker; from compose.settings.settings import load_settings;"
    " webhook_worker.run(load_settings(), 0)"
)


@pytest.fixture
def payout_id(webhooks: WebhookWorld) -> str:
    """A payout of which no bank has said anything for a month; a sweep is due."""
    payout_id = f"po_{uuid.uuid4().hex[:20]}"
    with webhooks.superuser() as connection:
        connection.execute(
            "insert into payout (id, account_id, merchant_id, amount, currency, state, destination, metadata, version,"
            " created_at, updated_at) values (%s, 'a', 'm', 7, 'USD', 'pending', 'd', '{}', 1,"
            " now() - interval '30 days', now())",
            (payout_id,),
        )
        connection.execute("update scheduled_run set done_at = now() - interval '2 hours'")
    return payout_id


def audited(webhooks: WebhookWorld) -> int:
    with webhooks.superuser() as connection:
        return len(connection.execute("select from audit_log where action = 'case.sweep'").fetchall())


@pytest.mark.parametrize("fail_point", ["case_sweep_begun", "case_sweep_opened", "case_sweep_done"])
def test_killed_at_any_point_and_two_at_once_open_each_case_once(
    webhooks: WebhookWorld, payout_id: str, fail_point: str
) -> None:
    before = audited(webhooks)
    victim = webhooks.start(MILLRACE_FAIL_POINT=fail_point)
    assert victim.wait(patient(20)) == -signal.SIGKILL
    is_done = fail_point == "case_sweep_done"
    assert webhooks.cases(payout_id) == [("aged_payout",)] * is_done
    assert audited(webhooks) == before + is_done
    for _ in range(2):
        webhooks.start()
    becomes(lambda: webhooks.cases(payout_id), [("aged_payout",)], 30, what="swept")
    becomes(lambda: audited(webhooks), before + 1, 30, what="audited")
    webhooks.end_all()
    assert (webhooks.cases(payout_id), audited(webhooks)) == ([("aged_payout",)], before + 1)


def test_a_worker_that_cannot_sweep_says_so_and_has_started_all_the_same(
    webhooks: WebhookWorld, payout_id: str
) -> None:
    """Webhooks go on meanwhile: the supervisor has no reason to start it again."""
    port = free_port()
    variables = clean_environment() | webhooks.settings.environment() | {"MILLRACE_OPS_PORT": str(port)}
    with webhooks.superuser() as connection:
        connection.execute(HINDERED)
        worker = subprocess.Popen([sys.executable, "-c", IMPATIENT], env=variables)
        webhooks.processes.append(worker)
        try:
            eventually(lambda: "not swept for" in asked(port, "readyz").text, 60, what="it says so")
            assert asked(port, "readyz").status_code == 503
            assert asked(port, "startz").status_code == 200
            assert webhooks.cases(payout_id) == []
            event_id = webhooks.tell("charge.captured", provider_ref=f"f_{payout_id}", amount=1, currency="USD")
            webhooks.reaches(event_id, "case")
        finally:
            connection.execute(HINDERED.replace("revoke", "grant").replace("from", "to"))
    eventually(lambda: ("aged_payout",) in webhooks.cases(payout_id), 30, what="swept")
    webhooks.end(worker)


def asked(port: int, path: str) -> Any:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False)
    except httpx.TransportError:
        return httpx.Response(599)

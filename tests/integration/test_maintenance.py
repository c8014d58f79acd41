"""Maintenance on the whole system: new work of merchants stops in every process and starts again, all else goes on."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from ingress import limits
from schemas import identity
from tests.eventually import becomes
from tests.integration.operator_shell import Operator
from tests.worlds.payments.console_world import visitors
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.payments.console_world import Visitors
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "visitors"]
pytestmark = [pytest.mark.servers, pytest.mark.alone]  # maintenance is everybody's
NDJSON = {"Content-Type": "application/x-ndjson"}


class Switch:
    """An operator at a shell, who sees in the metrics of every ingress process what it obeys."""

    def __init__(self, public: PublicSystem) -> None:
        self.public = public
        self.shell = Operator.of(public.settings)

    def turn(self, word: str, reason: str) -> int:
        """``millrace maintenance on|off``, in force everywhere when this returns; its version."""
        done = self.shell.run("maintenance", word, "--reason", reason, "--json")
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["on"] is (word == "on")
        becomes(self.obeyed, {float(word == "on")}, 60, what="every ingress follows")
        return int(said["version"])

    def obeyed(self) -> set[float]:
        texts = self.public.metrics("ingress")
        assert len(texts) > 1
        told = [
            line for text in texts for line in text.splitlines() if line.startswith("millrace_ingress_maintenance ")
        ]
        return {float(line.split()[1]) for line in told}


@pytest.fixture
def switch(public: PublicSystem) -> Iterator[Switch]:
    made = Switch(public)
    yield made
    made.turn("off", "the test is over")


@pytest.fixture
def operator(public: PublicSystem) -> Iterator[Merchant]:
    """Somebody with an operator's token."""
    made = public.merchant(scopes=("operator",))
    yield made
    made.http.close()


def refused(answer: httpx.Response) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "maintenance"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == str(limits.MAINTENANCE_RETRY_AFTER_S)
    assert "disks" not in answer.text


def test_new_work_stops_and_all_else_goes_on(
    public: PublicSystem, merchant: Merchant, operator: Merchant, switch: Switch
) -> None:
    made = merchant.create("made-before")
    waiting = str(merchant.create(payment_method="tok_sim_requires_action").json()["result"]["id"])
    assert merchant.act(waiting, "confirm").status_code == 200

    def state() -> str:
        return str(merchant.fresh(f"/v1/payment_intents/{waiting}").json()["state"])

    becomes(state, "requires_action", 60)
    switch.turn("on", "new disks")

    for _ in range(8):  # over connections of their own: whichever process answers
        body = merchant.envelope("made-in-vain")
        refused(merchant.http.post("/v1/payment_intents", json=body, headers={"Connection": "close"}))
    refused(merchant.act(waiting, "cancel"))
    refund = {"idempotency_key": "r", "payload": {"payment_intent": waiting, "amount": 1}}
    refused(merchant.http.post("/v1/refunds", json=refund))
    payout = {"amount": 1, "currency": "EUR", "destination": "ba_1"}
    refused(merchant.http.post("/v1/payouts", json={"idempotency_key": "p", "payload": payout}))
    refused(merchant.http.post("/v1/webhook_endpoints", json={"url": "https://example.com/hook"}))
    lines = [
        {"operation": "POST /v1/payment_intents", **merchant.envelope("made-before")},
        {"operation": "POST /v1/payment_intents", **merchant.envelope("made-in-vain")},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    first, second = merchant.http.post("/v1/commands", content=text, headers=NDJSON).text.splitlines()
    assert (json.loads(first)["status"], json.loads(first)["replayed"]) == (201, True)
    assert (json.loads(second)["status"], json.loads(second)["problem"]["code"]) == (503, "maintenance")

    again = merchant.create("made-before")
    assert (again.status_code, again.content, again.headers["idempotency-replayed"]) == (201, made.content, "true")
    assert merchant.http.post("/v1/payment_intents?dry_run=true", json=merchant.envelope()).status_code == 200
    becomes(lambda: merchant.http.get("/readyz").status_code, 200)
    action = f"{public.settings.addresses().processor_url}/actions/{identity.operation_id(waiting, 1)}"
    assert httpx.post(action, json={"outcome": "done"}, timeout=20, trust_env=False).status_code == 200
    becomes(state, "succeeded", 60, what="the processor's webhook is taken and applied")
    for verb in ("freeze", "unfreeze"):
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = operator.http.post(f"/v1/accounts/{merchant.name}/{verb}", json={"reason": "look"}, headers=key)
        assert answer.status_code == 200, answer.text

    switch.turn("off", "disks are in")
    taken = merchant.create("made-in-vain")
    assert (taken.status_code, "idempotency-replayed" in taken.headers) == (201, False)


def test_who_switched_and_why_is_kept_and_shown(
    public: PublicSystem, operator: Merchant, switch: Switch, visitors: Visitors
) -> None:
    visitor = visitors(f"m_{uuid.uuid4().hex[:12]}")
    banner = "new work of merchants is refused. &lt;b&gt;disks"
    version = switch.turn("on", "<b>disks")
    assert switch.turn("on", "<b>disks") == version, "what is in force already is not published again"
    assert banner in visitor.get("/console").text
    assert banner not in visitors().get("/console/sign-in").text, "no stranger hears why"
    shown = json.loads(switch.shell.run("maintenance", "show", "--json").stdout)
    assert (shown["on"], shown["reason"], shown["version"]) == (True, "<b>disks", version)
    audit = "select actor, details ->> 'on', details ->> 'reason' from audit_log where object = %s"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        assert connection.execute(audit, (f"maintenance:{version}",)).fetchall() == [
            (shown["author"], "true", "<b>disks")
        ]

    off: dict[str, Any] = {"expected_version": version, "on": False, "reason": "by token"}
    answer = operator.http.post("/v1/maintenance/policies", json=off)
    assert (answer.status_code, answer.json()["author"]) == (201, operator.name)
    becomes(switch.obeyed, {0.0}, 60, what="a token is as good as a shell")
    late = operator.http.post("/v1/maintenance/policies", json=off | {"on": True})
    assert (late.status_code, late.json()["current_version"]) == (409, version + 1)
    assert banner not in visitor.get("/console").text


def test_only_operators_switch(public: PublicSystem, merchant: Merchant, switch: Switch) -> None:
    body = {"expected_version": 0, "on": True, "reason": "x"}
    assert merchant.http.post("/v1/maintenance/policies", json=body).status_code == 403
    bad = switch.shell.run("maintenance", "on", "--reason", "4242 4242 4242 4242")
    assert bad.returncode == 1
    assert bad.stderr.startswith("millrace: --reason ")
    dsns = public.settings.addresses().postgres_dsns
    for role in ("millrace_ingress", "millrace_owner", "millrace_reader", "millrace_console"):
        with psycopg.connect(dsns[role]) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select maintenance_switch(%s, 'x')", ('{"on":true,"reason":"x"}',))
    with (
        psycopg.connect(dsns["millrace_operator"]) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("select policy_publish('risk', 0, '{}', 'x')")
    assert switch.obeyed() == {0.0}

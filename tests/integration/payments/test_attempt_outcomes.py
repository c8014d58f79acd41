"""Attempts past their budget on the running system: asked for and never sent again, and ended by two persons' evidence."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import eventually
from tests.integration.payments.test_ingress_refunds import refused
from tests.worlds.payments.console_world import visitors
from tests.worlds.payments.repair_world import ann, audited, bob, millrace, no_gaps, person, state_of
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    import httpx

    from tests.worlds.payments.console_world import Visitors
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "merchant", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

CLOSE = {"idempotency_key": "k", "payload": {"reason": "test", "note": "n"}}
EVIDENCE = "their support wrote it on the 3rd"
#: what worker and owner make of an attempt past its budget, without the days that it takes
_PAST_BUDGET = """
with late as (
    update attempt_dispatch d set status = 'review', updated_at = now()
    where d.intent_id = %(intent)s and d.status = 'waiting' and d.unknown_count > 0 returning d.*
), told as (
    update processor_attempt a set status = 'manual_review', error_code = 'unresolved:http_500', updated_at = now()
    from late where a.intent_id = late.intent_id and a.attempt = late.attempt
)
insert into repair_case (id, kind, reference, processor, evidence)
select attempt_case_id(operation_id), 'attempt_review', operation_id, processor, attempt_evidence(to_jsonb(late)) from late
returning id, reference
"""


def past_its_budget(public: PublicSystem, merchant: Merchant, token: str) -> tuple[str, str, str]:
    """A payment whose only attempt is a person's: its id, the case, and the operation."""
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:

        def given_up() -> tuple[str, str, str] | None:
            payment = str(merchant.create(amount=1_300, payment_method=token).json()["result"]["id"])
            assert merchant.act(payment, "confirm").status_code == 200

            def late() -> tuple[Any, ...] | None:
                found = superuser.execute(_PAST_BUDGET, {"intent": payment}).fetchone()
                over = merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"] != "processing"
                return found or (("", "") if over else None)

            case, operation = eventually(late, 60)
            return (payment, case, operation) if case else None  # the doubt was asked for before this test saw it

        return eventually(given_up, 60)


def propose(caller: Merchant, case_id: str, key: str | None = None, **payload: Any) -> httpx.Response:
    body = {"idempotency_key": key or uuid.uuid4().hex, "payload": {"note": EVIDENCE} | payload}
    return caller.http.post(f"/v1/cases/{case_id}/outcomes", json=body)


def decided(caller: Merchant, outcome: dict[str, Any], verb: str, **body: Any) -> httpx.Response:
    return caller.http.post(f"/v1/cases/{outcome['case_id']}/outcomes/{outcome['id']}/{verb}", json=body)


def dispatch(public: PublicSystem, operation: str) -> tuple[Any, ...]:
    (row,) = public.rows("select status, error_code from attempt_dispatch where operation_id = %s", operation)
    return row


def test_what_never_happened_is_ended_by_two_persons_and_not_sent_meanwhile(
    public: PublicSystem, merchant: Merchant, ann: Merchant, bob: Merchant, visitors: Visitors
) -> None:
    """The processor's first try failed without an effect: asking is no second try. A kill after the approval is made good."""
    payment, case_id, operation = past_its_budget(public, merchant, "tok_sim_error_before_commit")
    desk, page = visitors("m_ann"), f"/console/cases/{case_id}"
    for form in (f"/console/queues/attempts/{operation}/ask", f"{page}/ask"):
        assert desk.http.post(form).status_code == 403, "a form without its token"
        eventually(lambda: dispatch(public, operation)[0] == "review", 60)
        assert desk.post(form, page=page).status_code == 303
        eventually(lambda: dispatch(public, operation) == ("review", "asked:not_found"), 60)
    assert state_of(ann, case_id) == "open"
    refused(ann.http.post(f"/v1/cases/{case_id}/closings", json=CLOSE), 409, "state_conflict")
    for wrong in (
        {"status": "refunded"},
        {"status": "captured", "amount": 1, "currency": "USD"},
        {"status": "unknown"},
    ):
        refused(propose(ann, case_id, **wrong), 422, "invalid_command")

    fields = {"status": "failed", "error_code": "never_reached_the_bank", "note": EVIDENCE, "key": uuid.uuid4().hex}
    assert desk.post(f"{page}/outcomes", page=page, **fields).headers["location"] == page
    (outcome,) = ann.http.get(f"/v1/cases/{case_id}/outcomes").json()["data"]
    assert desk.post(f"{page}/outcomes/{outcome['id']}/approve", page=page).status_code == 403
    assert "a second person has to approve" in desk.get(page).text
    assert merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"] == "processing"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_ingress"], autocommit=True) as connection:
        query = "select attempt_outcome_approve(%s, %s)"
        assert connection.execute(query, (outcome["id"], person(bob))).fetchone() == ("approved",)
    eventually(lambda: no_gaps(public), 60)
    for _ in range(2):  # who goes on after the kill, and once more
        assert millrace(public, "repair", "resume", "--json").returncode == 0
    assert decided(bob, outcome, "approve").json()["state"] == "recorded"
    ended = merchant.fresh(f"/v1/payment_intents/{payment}").json()
    assert ended["state"] == "requires_payment_method"
    assert ended["last_payment_error"]["code"] == "never_reached_the_bank"
    case = ann.http.get(f"/v1/cases/{case_id}").json()
    assert case["state"] == "resolved"
    assert EVIDENCE in case["note"]
    assert desk.get("/console/search", params={"q": outcome["id"]}).headers["location"] == page
    told = desk.get(f"/console/story/{payment}").text
    assert 'class="entry outcome"' in told
    assert "outcome by hand: failed" in told
    eventually(lambda: dispatch(public, operation)[0] == "done", 60)
    refused(ann.http.post(f"/v1/processor_attempts/{operation}/ask"), 409, "state_conflict")
    assert [row for row in audited(public, operation) if row[2] == "done"] == [("m_ann", "attempt.ask", "done")] * 2
    eventually(lambda: no_gaps(public), 60)


def test_money_that_two_persons_vouch_for_is_posted_once_whatever_the_processor_says_later(
    public: PublicSystem, merchant: Merchant, ann: Merchant, bob: Merchant
) -> None:
    with public.frozen("webhook_worker"):
        payment, case_id, operation = past_its_budget(public, merchant, "tok_sim_error_after_commit")
        captured = {"status": "captured", "amount": 1_300, "currency": "USD"}
        refused(propose(ann, case_id, **captured), 422, "invalid_command")
        captured |= {"provider_ref": "their_name_of_it"}
        first, again = (propose(ann, case_id, "once", **captured) for _ in range(2))
        assert (first.json(), "idempotency-replayed" in first.headers) == (again.json(), False)
        assert again.headers["idempotency-replayed"] == "true"
        outcome = first.json()
        refused(decided(ann, outcome, "approve"), 403, "four_eyes_required")
        assert (person(ann), "attempt.approve_outcome", "refused") in audited(public, outcome["id"])
        for verb in ("approve", "reject"):
            refused(decided(bob, outcome | {"case_id": "case_unknown"}, verb), 404, "not_found")
        assert ann.http.get(f"/v1/cases/{case_id}/outcomes/{outcome['id']}").json()["state"] == "proposed"
        assert decided(bob, outcome, "reject", note="which 3rd?").json()["state"] == "rejected"
        assert state_of(ann, case_id) == "open"
        outcome = propose(ann, case_id, **captured).json()
        eventually(lambda: decided(bob, outcome, "approve").json().get("state") == "recorded", 60)
        assert merchant.fresh(f"/v1/payment_intents/{payment}").json()["amount_received"] == 1_300
    told = "select state from provider_event where reference in (%s, %s)"
    eventually(lambda: ("superseded",) in public.rows(told, payment, operation), 90, what="the late webhook is stale")
    assert public.rows("select kind from ledger_txn where aggregate_key = %s", payment) == [("capture",)]
    assert state_of(ann, case_id) == "resolved"
    eventually(lambda: no_gaps(public), 60)


def test_nobody_decides_about_attempts_that_are_not_a_persons(
    public: PublicSystem, merchant: Merchant, ann: Merchant
) -> None:
    refused(ann.http.post("/v1/processor_attempts/op_nobody_1/ask"), 404, "not_found")
    refused(merchant.http.post("/v1/processor_attempts/op_nobody_1/ask"), 403, "forbidden")
    refused(propose(ann, "case_unknown", status="failed"), 404, "not_found")
    case_id = f"case_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_worker"], autocommit=True) as connection:
        query = "insert into repair_case (id, kind, reference, evidence) values (%s, 'planted', %s, %s)"
        connection.execute(query, (case_id, case_id, json.dumps({})))
    refused(propose(ann, case_id, status="failed"), 409, "state_conflict")

"""Cases that need no money are closed by persons on the running system: as many as it takes, once, and with a way back."""

from __future__ import annotations

import json
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import eventually, patient
from tests.integration.operator_shell import MILLRACE
from tests.integration.payments.test_ingress_refunds import refused
from tests.servers import clean_environment
from tests.worlds.payments.console_world import visitors
from tests.worlds.payments.repair_world import (
    OPERATOR,
    ann,
    audited,
    bob,
    no_gaps,
    opened,
    person,
    propose,
    proposed,
    state_of,
)
from tests.worlds.public_system import public

if TYPE_CHECKING:
    import httpx

    from tests.worlds.payments.console_world import Visitors
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

WHY = {"reason": "explained", "note": "the report of the day after has it"}


def close(caller: Merchant, case_id: str, key: str | None = None, **changes: Any) -> httpx.Response:
    body = {"idempotency_key": key or uuid.uuid4().hex, "payload": WHY | changes}
    return caller.http.post(f"/v1/cases/{case_id}/closings", json=body)


def decided(caller: Merchant, closing: dict[str, Any], verb: str, **body: Any) -> httpx.Response:
    return caller.http.post(f"/v1/cases/{closing['case_id']}/closings/{closing['id']}/{verb}", json=body)


def opened_of_kind(public: PublicSystem, kind: str) -> str:
    case_id = opened(public, currency="USD")
    dsn = public.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("update repair_case set kind = %s where id = %s", (kind, case_id))
    return case_id


def test_a_second_person_closes_what_concerns_money_and_anybody_opens_it_again(
    public: PublicSystem, ann: Merchant, bob: Merchant
) -> None:
    case_id = opened(public, currency="USD")
    before = ann.http.get(f"/v1/cases/{case_id}").json()
    answer = close(ann, case_id)
    closing = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/cases/{case_id}/closings/{closing['id']}"
    assert (closing["state"], closing["four_eyes"], closing["author"]) == ("proposed", True, person(ann))
    assert state_of(ann, case_id) == "proposed"
    refused(decided(ann, closing, "approve"), 403, "four_eyes_required")
    refused(close(bob, case_id), 409, "state_conflict")
    refused(propose(bob, case_id), 409, "state_conflict")

    assert decided(bob, closing, "approve").json()["state"] == "closed"
    assert decided(bob, closing, "approve").status_code == 200, "a retry of the same person is known"
    case = ann.http.get(f"/v1/cases/{case_id}").json()
    assert (case["state"], case["resolved_by"]) == ("resolved", f"{person(ann)}, {person(bob)}")
    assert case["note"] == f"explained: {WHY['note']}"
    refused(decided(ann, closing, "reject"), 409, "state_conflict")
    eventually(lambda: no_gaps(public), 60)

    for _ in range(2):  # and a retry
        answer = ann.http.post(f"/v1/cases/{case_id}/reopen", json={"note": "it was the wrong report"})
        assert answer.status_code == 200, answer.text
    again = answer.json()
    assert (again["state"], again["resolved_by"], again["opened_at"]) == ("open", None, before["opened_at"])
    refused(bob.http.post(f"/v1/cases/{case_id}/reopen", json={"note": "me too"}), 409, "state_conflict")
    (found,) = ann.http.get(f"/v1/cases/{case_id}/closings").json()["data"]
    assert (found["state"], found["reopened_by"]) == ("reopened", person(ann))
    assert ann.http.get(answer.request.url.path.replace("/reopen", f"/closings/{found['id']}")).json() == found
    assert proposed(ann, case_id)["state"] == "proposed", "and it may be repaired after all"
    done = [row[:2] for row in audited(public, case_id) if row[2] == "done" and "read" not in row[1]]
    assert [row for row in done if not row[1].startswith("case.list")] == [
        (person(ann), "case.propose_closing"),
        (person(bob), "case.close"),
        (person(ann), "case.reopen"),
    ]
    eventually(lambda: no_gaps(public), 60)


def test_one_person_closes_what_comes_up_again_by_itself(public: PublicSystem, ann: Merchant) -> None:
    case_id = opened_of_kind(public, "undecided_fact")
    closing = close(ann, case_id).json()
    assert (closing["state"], closing["four_eyes"], closing["decided_by"]) == ("closed", False, person(ann))
    assert state_of(ann, case_id) == "resolved"
    eventually(lambda: no_gaps(public), 60)


def test_a_closing_is_made_once_for_its_identity(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    case_id = opened(public)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: close(ann, case_id, "same"), range(4)))
    assert {a.status_code for a in answers} == {201}
    assert len({a.json()["id"] for a in answers}) == 1
    refused(close(ann, case_id, "same", reason="test"), 422, "key_reused")
    closing = answers[0].json()
    persons = [bob, *(public.merchant(scopes=OPERATOR) for _ in range(2))]
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda n: decided(persons[n % 3], closing, "approve").status_code, range(6)))
    for one in persons[1:]:
        one.http.close()
    assert sorted(codes) == [200, 200, 409, 409, 409, 409]
    assert [row[1:] for row in audited(public, case_id)].count(("case.close", "done")) == 1


def test_a_rejected_closing_leaves_its_case_open(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    case_id = opened(public)
    closing = close(ann, case_id).json()
    assert decided(bob, closing, "reject", note="look at the fee").json()["decision_note"] == "look at the fee"
    assert state_of(ann, case_id) == "open"
    refused(decided(ann, closing, "approve"), 403, "four_eyes_required")
    refused(decided(bob, closing, "approve"), 409, "state_conflict")
    kept = [row for row in audited(public, case_id) if row[2] == "refused"]
    assert kept == [(person(caller), "case.close", "refused") for caller in (ann, bob)], "under the case"
    assert close(ann, case_id).status_code == 201


def test_what_may_not_be_closed_by_hand_stays_open(public: PublicSystem, ann: Merchant) -> None:
    review = opened_of_kind(public, "risk_review")
    try:
        refused(close(ann, review), 409, "state_conflict")
        assert state_of(ann, review) == "open"
    finally:  # it is the review of no payment
        dsn = public.settings.addresses().postgres_superuser_dsn
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute("update repair_case set kind = 'planted' where id = %s", (review,))
    case_id = opened(public)
    for wrong in ({"reason": "because"}, {"reason": None}, {"note": " "}, {"note": "4242 4242 4242 4242"}, {"x": 1}):
        assert close(ann, case_id, **wrong).status_code in (400, 422), wrong
    refused(ann.http.post(f"/v1/cases/{case_id}/closings", json=WHY), 400, "idempotency_key_required")
    refused(close(ann, "case_unknown"), 404, "not_found")
    refused(ann.http.post(f"/v1/cases/{case_id}/closings/cc_unknown/approve"), 404, "not_found")
    refused(ann.http.post(f"/v1/cases/{case_id}/reopen", json={"note": "n"}), 409, "state_conflict")
    merchant = public.merchant(scopes=("payments:read", "payments:write"))
    refused(close(merchant, case_id), 403, "forbidden")
    merchant.http.close()
    assert state_of(ann, case_id) == "open"
    assert [row[1:] for row in audited(public, case_id)].count(("case.close", "refused")) >= 5


def test_a_shell_decides_with_the_token_of_a_person(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    case_id = opened(public)
    assert "waits for a second person" in shell(public, ann, "close", case_id, "--reason", "test", "--note", "a drill")
    (closing,) = json.loads(shell(public, ann, "closings", case_id))
    assert "four_eyes_required" in shell(public, ann, "approve", case_id, closing["id"])
    assert "is closed" in shell(public, bob, "approve", case_id, closing["id"])
    assert "waits again" in shell(public, bob, "reopen", case_id, "--note", "no drill")
    assert state_of(ann, case_id) == "open"


def shell(public: PublicSystem, who: Merchant, *words: str) -> str:
    token = public.token(who.name, OPERATOR)
    environment = clean_environment() | public.settings.environment() | {"MILLRACE_TOKEN": token}
    command = [MILLRACE, "cases", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=patient(60))
    assert token not in done.stdout + done.stderr
    return done.stdout or done.stderr


def test_the_console_closes_and_opens_again(public: PublicSystem, visitors: Visitors, ann: Merchant) -> None:
    case_id = opened(public)
    page = f"/console/cases/{case_id}"
    author, second, reader = visitors("m_ann"), visitors("m_bob"), visitors("m_reader", "console:read")
    fields = {"key": uuid.uuid4().hex} | WHY
    assert author.http.post(f"{page}/closings", data=fields).status_code == 403, "a form without its token"
    assert reader.post(f"{page}/closings", page=page, **fields).status_code == 403
    for _ in range(2):  # a second press
        assert author.post(f"{page}/closings", page=page, **fields).headers["location"] == page
    (closing,) = ann.http.get(f"/v1/cases/{case_id}/closings").json()["data"]
    approve = f"{page}/closings/{closing['id']}/approve"
    assert "a second person has to approve" in author.get(page).text
    assert author.post(approve, page=page).status_code == 403
    assert second.post(approve, page=page).headers["location"] == page
    assert state_of(ann, case_id) == "resolved"
    assert case_id in second.get("/console/queues/cases?state=resolved&kind=planted").text
    assert reader.get("/console/search", params={"q": closing["id"]}).headers["location"] == page
    assert author.post(f"{page}/reopen", page=page, note="once more").headers["location"] == page
    assert state_of(ann, case_id) == "open"
    closing = close(ann, case_id).json()
    reject = f"{page}/closings/{closing['id']}/reject"
    assert second.post(reject, page=page, note="not yet").headers["location"] == page
    assert "not yet" in reader.get(page).text

"""Repairs on the running system: two persons, once, what was shown is what is posted, and the way back."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.integration.payments.test_ingress_refunds import refused
from tests.servers import clean_environment
from tests.worlds.payments.repair_world import (
    NOTE,
    OPERATOR,
    ann,
    approved,
    audited,
    balances,
    bob,
    decide,
    millrace,
    no_gaps,
    opened,
    party,
    person,
    propose,
    proposed,
    state_of,
    transactions,
)
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_what_was_shown_is_posted_and_the_way_back_restores_it(
    public: PublicSystem, ann: Merchant, bob: Merchant
) -> None:
    case_id = opened(public, currency="USD")
    found = proposed(ann, case_id)
    loss, suspense = f"recon_loss_expense:{party(case_id)}:USD", f"recon_suspense:{party(case_id)}:USD"
    assert (found["state"], found["author"], found["decided_by"]) == ("proposed", person(ann), None)
    assert [(a["account_id"], a["before"], a["change"], a["after"]) for a in found["preview"]] == [
        (loss, 0, 700, 700),
        (suspense, 0, -700, -700),
    ]
    assert state_of(ann, case_id) == "proposed"
    assert transactions(public, found["id"]) == []

    posted = approved(bob, found["id"])
    ((txn_id, kind),) = transactions(public, found["id"])
    assert (posted["txn_id"], posted["decided_by"], kind) == (str(txn_id), person(bob), "repair")
    assert balances(public, case_id) == {a["account_id"]: a["after"] for a in posted["preview"]}
    case = ann.http.get(f"/v1/cases/{case_id}").json()
    assert (case["state"], case["resolved_by"]) == ("resolved", f"{person(ann)}, {person(bob)}")
    assert str(txn_id) in case["note"]
    ((note,),) = public.rows("select note from journal_entry where reference = %s", f"repair:{found['id']}")
    assert note == f"{NOTE} (proposed by {person(ann)}, approved by {person(bob)})"

    back = decide(bob, found["id"], "reverse", idempotency_key="back", payload={"note": "it was wrong"}).json()
    assert (back["reverses"], back["state"]) == (found["id"], "proposed")
    assert back["preview"][0]["after"] == 0
    refused(decide(bob, back["id"], "approve"), 403, "four_eyes_required")
    approved(ann, back["id"])
    assert balances(public, case_id) == {loss: 0, suspense: 0}
    assert state_of(ann, case_id) == "open"
    assert [kind for _, kind in transactions(public, back["id"])] == ["repair_reversal"]
    refused(decide(ann, found["id"], "reverse", idempotency_key="two", payload={"note": "n"}), 409, "state_conflict")
    eventually(lambda: no_gaps(public), 60)


def test_nobody_approves_what_he_proposed(public: PublicSystem, ann: Merchant) -> None:
    """Also not in another session, with another token of the same person."""
    case_id = opened(public)
    found = proposed(ann, case_id)
    again = public.merchant(ann.name, scopes=("operator:finance",))
    with again.http:
        for caller in (ann, again):
            refused(decide(caller, found["id"], "approve"), 403, "four_eyes_required")
    assert ann.http.get(f"/v1/repairs/{found['id']}").json()["state"] == "proposed"
    assert transactions(public, found["id"]) == []
    assert audited(public, found["id"])[-3:-1] == [(person(ann), "repair.approve", "refused")] * 2


def test_two_approvals_at_once_post_once(public: PublicSystem, ann: Merchant) -> None:
    case_id = opened(public)
    found = proposed(ann, case_id)
    persons = [public.merchant(scopes=OPERATOR) for _ in range(2)]
    try:
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda n: decide(persons[n % 2], found["id"], "approve"), range(6)))
    finally:
        for one in persons:
            one.http.close()
    codes = {answer.status_code for answer in answers}
    assert codes <= {200, 202, 409}
    by_person = [{a.status_code for a in answers[n::2]} for n in range(2)]
    assert sorted(409 in seen for seen in by_person) == [False, True]
    becomes(lambda: ann.http.get(f"/v1/repairs/{found['id']}").json()["state"], "posted", 60)
    assert len(transactions(public, found["id"])) == 1
    assert balances(public, case_id)[f"recon_suspense:{party(case_id)}:USD"] == -700
    assert [row[1:] for row in audited(public, found["id"])].count(("repair.approve", "done")) == 1


#: ``millrace repair resume`` that is killed at its n-th step
_KILLED = """
import os, signal, sys, itertools
import psycopg
from compose.settings.settings import load_settings
from reconciliation.payments.repair.resume import resume
count = itertools.count(1)
def step(_):
    if next(count) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
settings = load_settings()
a = settings.addresses()
with psycopg.connect(a.postgres_dsns["millrace_operator"], autocommit=True) as connection:
    resume(connection, settings.kafka_as("repairs"), on_step=step)
"""


@pytest.mark.parametrize("step", matrix([1, 2, 3, 4], gate=lambda step: step in (2, 3)))
def test_a_kill_after_the_approval_ends_in_one_posting(public: PublicSystem, ann: Merchant, step: int) -> None:
    """The approval alone is durable, as after kill -9 of the ingress; then the one who goes on is killed as well."""
    case_id = opened(public)
    found = proposed(ann, case_id)
    ingress = public.settings.addresses().postgres_dsns["millrace_ingress"]
    with public.frozen("webhook_worker"):  # it would finish the repair by itself
        with psycopg.connect(ingress, autocommit=True) as connection:
            said = connection.execute("select repair_approve(%s, 'merchant:bob')", (found["id"],)).fetchone()
        assert said == ("approved",)
        # at once: a worker that stands still for half a minute is replaced, and finishes the repair by itself
        killed = subprocess.run(
            [sys.executable, "-m", "tests.worlds.program", _KILLED, str(step)],
            env=clean_environment() | public.settings.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=patient(150),
        )
        assert killed.returncode == -9, killed.stderr
        eventually(lambda: no_gaps(public), 60)
    for _ in range(2):
        done = millrace(public, "repair", "resume", "--json")
        assert done.returncode == 0, done.stderr + done.stdout
    assert ann.http.get(f"/v1/repairs/{found['id']}").json()["state"] == "posted"
    assert len(transactions(public, found["id"])) == 1
    assert balances(public, case_id)[f"recon_suspense:{party(case_id)}:USD"] == -700
    assert state_of(ann, case_id) == "resolved"


def test_a_proposal_is_made_once_for_its_identity(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    case_id = opened(public)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: propose(ann, case_id, "same"), range(4)))
    assert {a.status_code for a in answers} == {201}
    assert len({a.json()["id"] for a in answers}) == 1
    refused(propose(ann, case_id, "same", amount=701), 422, "key_reused")
    refused(propose(bob, case_id, "same"), 409, "state_conflict")
    refused(ann.http.post(f"/v1/cases/{case_id}/proposals", json={"note": "n"}), 400, "idempotency_key_required")
    header = {"Idempotency-Key": "same"}
    body = {"note": NOTE, "template": "write_off", "amount": 700, "currency": "USD"}
    again = ann.http.post(f"/v1/cases/{case_id}/proposals", json=body, headers=header)
    assert again.json()["id"] == answers[0].json()["id"]
    refused(propose(ann, "case_unknown"), 404, "not_found")


def test_a_rejected_proposal_posts_nothing_and_its_case_waits_again(
    public: PublicSystem, ann: Merchant, bob: Merchant
) -> None:
    case_id = opened(public)
    found = proposed(ann, case_id)
    assert decide(bob, found["id"], "reject", note="not so").json()["decision_note"] == "not so"
    assert decide(bob, found["id"], "reject", note="not so").status_code == 200
    assert state_of(ann, case_id) == "open"
    refused(decide(bob, found["id"], "approve"), 409, "state_conflict")
    refused(decide(bob, found["id"], "reverse", idempotency_key="k", payload={"note": "n"}), 409, "state_conflict")
    second = proposed(ann, case_id, template="move_from_suspense", account="merchant_available:m_repaired")
    assert [e["account_id"] for e in second["entries"]] == [
        f"recon_suspense:{party(case_id)}:USD",
        "merchant_available:m_repaired:USD",
    ]
    decide(ann, second["id"], "reject")
    listed = ann.http.get(f"/v1/cases/{case_id}/proposals").json()["data"]
    assert [one["id"] for one in listed] == [second["id"], found["id"]]
    assert transactions(public, found["id"]) == []


def test_another_transaction_is_mirrored(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    first = opened(public)
    posted = approved(bob, proposed(ann, first)["id"])
    second = opened(public)
    body = {"idempotency_key": "m", "payload": {"template": "reverse", "reference": posted["reference"], "note": NOTE}}
    mirror = ann.http.post(f"/v1/cases/{second}/proposals", json=body).json()
    assert [(e["debit"], e["credit"]) for e in mirror["entries"]] == [(0, 700), (700, 0)]
    approved(bob, mirror["id"])
    assert set(balances(public, first).values()) == {0}

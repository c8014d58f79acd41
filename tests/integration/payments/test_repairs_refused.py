"""What nobody may repair, who may not, and that every refusal is in the audit log."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import becomes, eventually
from tests.integration.payments.test_ingress_refunds import refused
from tests.worlds.payments.repair_world import (
    NOTE,
    ann,
    audited,
    bob,
    decide,
    millrace,
    no_gaps,
    opened,
    person,
    proposed,
    state_of,
)
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def line(account: str, debit: int, credit: int, currency: str = "USD") -> dict[str, Any]:
    return {"account_id": account, "debit": debit, "credit": credit, "currency": currency}


CASH, SUSPENSE = "cash:bank:USD", "recon_suspense:p:USD"


@pytest.mark.parametrize(
    "payload",
    [
        {"entries": [line(CASH, 5, 0), line(SUSPENSE, 0, 4)]},
        {"entries": [line(CASH, 5, 0), line(SUSPENSE, 0, 5, "EUR")]},
        {"entries": [line("cash:bank:EUR", 5, 0, "EUR"), line("recon_suspense:p:EUR", 0, 5, "EUR")]},
        {"entries": [line(CASH, 5, 0), line("merchant_pending:m_1:USD", 0, 5)]},
        {"entries": [line(CASH, 5, 0), line("auth_hold:p:USD", 0, 5)]},
        {"entries": [line(CASH, 5, 0), line("no_such_account:USD", 0, 5)]},
        {"entries": [line(CASH, 5, 5), line(SUSPENSE, 5, 5)]},
        {"entries": [line(CASH, 0, 0), line(SUSPENSE, 0, 0)]},
        {"entries": [line(CASH, -5, 0), line(SUSPENSE, 0, -5)]},
        {"entries": [line(CASH, 5, 0)]},
        {"entries": [line(CASH, 5, 0), line(SUSPENSE, 0, 5)], "amount": 5},
        {"template": "write_off", "amount": 5},
        {"template": "write_off", "amount": 5, "currency": "EUR"},
        {"template": "write_off", "amount": 0, "currency": "USD"},
        {"template": "write_off", "amount": 5, "currency": "USD", "account": "merchant_pending:m"},
        {"template": "move_from_suspense", "amount": 5, "currency": "USD"},
        {"template": "reverse", "reference": "nothing:there"},
        {"template": "steal", "amount": 5, "currency": "USD"},
        {"template": "write_off", "amount": 5, "currency": "USD", "note": ""},
        {"template": "write_off", "amount": 5, "currency": "USD", "note": "x" * 201},
        {"note": "nothing else"},
        {"template": "write_off", "amount": 5, "currency": "USD", "approver": "me"},
    ],
)
def test_what_cannot_be_posted_is_refused_and_changes_nothing(
    public: PublicSystem, ann: Merchant, payload: dict[str, Any]
) -> None:
    case_id = opened(public, currency="USD")
    body = {"idempotency_key": "k", "payload": {"note": NOTE} | payload}
    answer = ann.http.post(f"/v1/cases/{case_id}/proposals", json=body)
    refused(answer, 422, "invalid_command")
    assert answer.json()["errors"]
    assert state_of(ann, case_id) == "open"
    assert audited(public, case_id)[0] == (person(ann), "repair.propose", "refused")


def test_an_owners_refusal_opens_the_case_again(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    """The database does not judge entries, its owner does: what slipped through would still not be posted."""
    case_id = opened(public)
    repair_id = f"rp_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_ingress"], autocommit=True) as connection:
        entries = json.dumps([line(CASH, 5, 0), line(SUSPENSE, 0, 4)])
        arguments = (repair_id, case_id, "entries", entries, "n", person(ann), b"\0" * 32)
        connection.execute("select repair_propose(%s, %s, %s, %s::jsonb, %s, %s, %s)", arguments)
    decide(bob, repair_id, "approve")
    becomes(lambda: decide(bob, repair_id, "approve").json()["state"], "refused", 60)
    found = ann.http.get(f"/v1/repairs/{repair_id}").json()
    assert (found["refusal"], found["txn_id"]) == ("invalid_command", None)
    assert state_of(ann, case_id) == "open"
    eventually(lambda: no_gaps(public), 60)  # ClickHouse follows


def test_only_operators_and_every_refusal_is_audited(public: PublicSystem, merchant: Merchant, ann: Merchant) -> None:
    case_id = opened(public)
    found = proposed(ann, case_id)
    calls = [
        ("GET", f"/v1/cases/{case_id}", case_id, "case.read"),
        ("GET", f"/v1/cases/{case_id}/proposals", case_id, "repair.list"),
        ("POST", f"/v1/cases/{case_id}/proposals", case_id, "repair.propose"),
        ("GET", f"/v1/repairs/{found['id']}", found["id"], "repair.read"),
        *(
            ("POST", f"/v1/repairs/{found['id']}/{v}", found["id"], f"repair.{v}")
            for v in ("approve", "reject", "reverse")
        ),
    ]
    for method, path, name, action in calls:
        refused(merchant.http.request(method, path, json={}), 403, "forbidden")
        assert audited(public, name)[-1] == (f"merchant:{merchant.name}", action, "refused")
        refused(merchant.http.request(method, path, json={}, headers={"Authorization": ""}), 401, "unauthenticated")
    assert ann.http.get(f"/v1/repairs/{found['id']}").json()["state"] == "proposed"
    assert millrace(public, "audit", "verify").returncode == 0


def test_the_database_itself_asks_for_two_persons(public: PublicSystem, ann: Merchant) -> None:
    found = proposed(ann, opened(public))
    addresses = public.settings.addresses()
    with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(
                "update repair_proposal set state = 'approved', decided_by = author where id = %s", (found["id"],)
            )
        for change in ("entries = '[]'", "note = 'other'", "author = 'x'"):
            with pytest.raises(psycopg.Error, match="what was proposed never changes"):
                connection.execute(f"update repair_proposal set {change} where id = %s", (found["id"],))
    for role in ("millrace_ingress", "millrace_operator", "millrace_owner", "millrace_worker", "millrace_reader"):
        with psycopg.connect(addresses.postgres_dsns[role], autocommit=True) as connection:
            for statement in ("update repair_proposal set state = 'approved'", "delete from audit_log",
                              "update audit_head set seq = 0"):  # fmt: skip
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
    operators = psycopg.connect(addresses.postgres_dsns["millrace_operator"], autocommit=True)
    with operators as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select repair_approve(%s, 'merchant:bob')", (found["id"],))


def test_the_shell_shows_cases_and_repairs(public: PublicSystem, ann: Merchant) -> None:
    case_id = opened(public)
    found = proposed(ann, case_id)
    assert case_id in millrace(public, "cases", "list").stdout
    assert json.loads(millrace(public, "cases", "show", case_id).stdout)["state"] == "proposed"
    assert found["id"] in millrace(public, "repair", "list").stdout
    assert json.loads(millrace(public, "repair", "show", found["id"]).stdout)["author"] == person(ann)
    missing = millrace(public, "repair", "show", "rp_none")
    assert (missing.returncode, "there is no repair" in missing.stderr) == (1, True)
    rows = json.loads(millrace(public, "audit", "list", "--json", "--object", found["id"]).stdout)["data"]
    assert [row["action"] for row in rows] == ["repair.propose", "repair.read"]

"""Cases, operators and decisions about repairs on the running system, for tests."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from compose.operator_access import check_settings
from reconciliation.check.run import run_check
from schemas.errors import PlatformError
from tests.eventually import eventually, patient
from tests.integration.operator_shell import MILLRACE
from tests.servers import clean_environment
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["public"]  # the fixtures of here and there

OPERATOR = ("operator",)
NOTE = "the bank confirmed it"


@pytest.fixture
def ann(public: PublicSystem) -> Iterator[Merchant]:
    """An operator."""
    caller = public.merchant(scopes=OPERATOR)
    yield caller
    caller.http.close()


@pytest.fixture
def bob(public: PublicSystem) -> Iterator[Merchant]:
    """Another one."""
    caller = public.merchant(scopes=OPERATOR)
    yield caller
    caller.http.close()


def opened(public: PublicSystem, **evidence: Any) -> str:
    """A case of a processor that nothing else books to."""
    case_id = f"case_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_worker"], autocommit=True) as connection:
        connection.execute(
            "insert into repair_case (id, kind, reference, processor, evidence) values (%s, 'planted', %s, %s, %s)",
            (case_id, f"pi_{case_id}", f"p{case_id[5:15]}", json.dumps(evidence)),
        )
    return case_id


def party(case_id: str) -> str:
    return f"p{case_id[5:15]}"


def propose(caller: Merchant, case_id: str, key: str | None = None, **payload: Any) -> httpx.Response:
    body = {"note": NOTE, "template": "write_off", "amount": 700, "currency": "USD"} | payload
    envelope = {"idempotency_key": key or uuid.uuid4().hex, "payload": body}
    return caller.http.post(f"/v1/cases/{case_id}/proposals", json=envelope)


def proposed(caller: Merchant, case_id: str, **payload: Any) -> dict[str, Any]:
    answer = propose(caller, case_id, **payload)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def decide(caller: Merchant, repair_id: str, verb: str, **body: Any) -> httpx.Response:
    return caller.http.post(f"/v1/repairs/{repair_id}/{verb}", json=body)


def approved(caller: Merchant, repair_id: str) -> dict[str, Any]:
    """Posted, whatever an owner needs on a busy machine: the approver's retry goes on where it was."""

    def posted() -> dict[str, Any] | None:
        answer = decide(caller, repair_id, "approve")
        assert answer.status_code in (200, 202), answer.text
        found: dict[str, Any] = answer.json()
        return found if found["state"] == "posted" else None

    return eventually(posted, 60)


def posted_by_hand(public: PublicSystem, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A repair with these entries, which two persons agreed to."""
    author, approver = (public.merchant(scopes=OPERATOR) for _ in range(2))
    with author.http, approver.http:
        found = proposed(author, opened(public), template=None, amount=None, currency=None, entries=entries)
        return approved(approver, found["id"])


def state_of(caller: Merchant, case_id: str) -> str:
    return str(caller.http.get(f"/v1/cases/{case_id}").json()["state"])


def balances(public: PublicSystem, case_id: str) -> dict[str, int]:
    rows = public.rows("select account_id, balance from account_total where account_id like %s", f"%{party(case_id)}%")
    return {account: int(balance) for account, balance in rows}


def transactions(public: PublicSystem, repair_id: str) -> list[tuple[Any, ...]]:
    return public.rows("select txn_id, kind from ledger_txn where reference = %s", f"repair:{repair_id}")


def audited(public: PublicSystem, name: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select actor, action, outcome from audit_log where object = %s order by seq"
        return connection.execute(query, (name,)).fetchall()


def person(caller: Merchant) -> str:
    return caller.name


def gaps(public: PublicSystem) -> dict[str, Any]:
    """What ``millrace check`` finds, with samples of it, without a process of its own.

    Raises AssertionError when it cannot say: that is no check without gaps.
    """
    try:
        report = run_check(check_settings(public.settings))
    except PlatformError as error:
        raise AssertionError(f"the check cannot say: {error.public}") from error
    return {f.id: f.sample or f.note for f in report.invariants if f.gaps}


def no_gaps(public: PublicSystem) -> bool:
    """Every invariant holds, once ClickHouse has followed; fails with what does not."""
    found = gaps(public)
    assert not found, found
    return True


def millrace(public: PublicSystem, *words: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | public.settings.environment()
    return subprocess.run(
        [MILLRACE, *words], env=environment, capture_output=True, text=True, check=False, timeout=patient(150)
    )

"""Cases are for operators only: newest first, filtered, with their evidence as it was stored."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress import limits
from tests.eventually import eventually
from tests.integration.payments.test_ingress_refunds import refused
from tests.worlds.payments.console_world import Visitors, visitors
from tests.worlds.payments.repair_world import audited
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

CASES = "/v1/cases"
EVIDENCE = {"event": "evt_1", "amount": 2**63, "text": "Ä \u2028 <b>", "nested": {"list": [1.5, None, True]}}


@pytest.fixture
def operator(public: PublicSystem) -> Iterator[Merchant]:
    """Somebody who may see what waits for a person."""
    caller = public.merchant(scopes=("operator",))
    yield caller
    caller.http.close()


def opened(public: PublicSystem, kind: str, count: int) -> list[str]:
    """Cases as a worker opens them."""
    ids = [f"case_{uuid.uuid4().hex[:16]}" for _ in range(count)]
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_worker"], autocommit=True) as connection:
        for number, case_id in enumerate(ids):
            connection.execute(
                "insert into repair_case (id, kind, reference, processor, evidence) values (%s, %s, %s, %s, %s)",
                (case_id, kind, f"pi_{kind}_{number}", "simulator", json.dumps(EVIDENCE)),
            )
    return ids


def cases(operator: Merchant, **params: Any) -> dict[str, Any]:
    answer = operator.http.get(CASES, params=params)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def test_cases_are_listed_newest_first_with_their_evidence(public: PublicSystem, operator: Merchant) -> None:
    kind = f"kind_{uuid.uuid4().hex[:8]}"
    ids = opened(public, kind, 5)
    seen: list[dict[str, Any]] = []
    params: dict[str, Any] = {"kind": kind, "limit": 2}
    while True:
        page = cases(operator, **params)
        seen += page["data"]
        if not page["has_more"]:
            break
        params["cursor"] = page["next_cursor"]
    assert [case["id"] for case in seen] == ids[::-1]
    assert seen[0]["evidence"] == EVIDENCE
    assert {name: seen[0][name] for name in ("object", "kind", "reference", "processor", "state", "resolved_at")} == {
        "object": "case",
        "kind": kind,
        "reference": f"pi_{kind}_4",
        "processor": "simulator",
        "state": "open",
        "resolved_at": None,
    }
    assert seen[0]["opened_at"].endswith("Z")
    assert operator.http.get(f"{CASES}/{ids[2]}").json() == seen[2]


def test_cases_are_filtered_by_state(public: PublicSystem, operator: Merchant) -> None:
    kind = f"kind_{uuid.uuid4().hex[:8]}"
    ids = opened(public, kind, 3)
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"], autocommit=True) as connection:
        connection.execute(
            "update repair_case set state = 'resolved', resolved_at = now(), resolved_by = 'o_1', note = 'n' where id = %s",
            (ids[1],),
        )
    (resolved,) = cases(operator, kind=kind, state="resolved")["data"]
    assert (resolved["id"], resolved["resolved_by"], resolved["note"]) == (ids[1], "o_1", "n")
    assert resolved["resolved_at"].endswith("Z")
    assert [case["id"] for case in cases(operator, kind=kind, state="open")["data"]] == [ids[2], ids[0]]
    assert cases(operator, kind=kind, state="proposed")["data"] == []
    found = cases(operator, state="open", limit=100)["data"]  # a worker may open one of its own meanwhile
    assert {case["state"] for case in found} == {"open"}
    assert [case["id"] for case in found if case["kind"] == kind] == [ids[2], ids[0]]


def test_cases_need_the_operators_scope(public: PublicSystem, merchant: Merchant) -> None:
    (case_id,) = opened(public, f"kind_{uuid.uuid4().hex[:8]}", 1)
    for path in (CASES, f"{CASES}/{case_id}", f"{CASES}/unknown", f"{CASES}?state=nonsense"):
        refused(merchant.http.get(path), 403, "forbidden")
        refused(merchant.http.get(path, headers={"Authorization": ""}), 401, "unauthenticated")


def test_a_cursor_of_cases_is_bound(public: PublicSystem, operator: Merchant) -> None:
    """To its holder and to both filters; and what is no value of a filter is told."""
    one, two = f"kind_{uuid.uuid4().hex[:8]}", f"kind_{uuid.uuid4().hex[:8]}"
    opened(public, one, 2)
    opened(public, two, 2)
    cursor = cases(operator, kind=one, limit=1)["next_cursor"]
    other = public.merchant(scopes=("operator",))
    with other.http:
        for caller, params in (
            (operator, {"cursor": cursor}),
            (operator, {"cursor": cursor, "kind": two}),
            (operator, {"cursor": cursor, "kind": one, "state": "open"}),
            (operator, {"cursor": cursor, "state": one}),
            (other, {"cursor": cursor, "kind": one}),
            (operator, {"cursor": "AAAA"}),
        ):
            status, code = (422, "invalid_command") if params.get("state") == one else (400, "malformed_request")
            refused(caller.http.get(CASES, params=params), status, code)
    for params in ({"state": ""}, {"kind": "a:b"}, {"kind": "%"}, {"kind": "k\u0000"}, {"limit": "-1"}):
        refused(operator.http.get(CASES, params=params), 422, "invalid_command")
    for odd in ("%00", "x" * 65, "a%20b", "..%2F.."):
        refused(operator.http.get(f"{CASES}/{odd}"), 404, "not_found")
    refused(operator.http.get(f"{CASES}/unknown"), 404, "not_found")


def test_who_looks_for_ids_that_do_not_exist_is_found(public: PublicSystem, merchant: Merchant) -> None:
    """One answer after the other stays a plain 404; people get a case and the audit log a row, once."""
    for n in range(limits.ACCESS_MISSES_MAX + 30):
        answer = merchant.http.get(f"/v1/payment_intents/pi_{n:026}")
        assert answer.status_code == 404
    cases = "select state from repair_case where kind = 'suspicious_access' and reference = %s"
    name = f"enumeration {merchant.name} merchant:{merchant.name}"
    eventually(lambda: public.rows(cases, name) == [("open",)], 30)
    assert [row for row in audited(public, "api") if row[0] == f"{merchant.name} merchant:{merchant.name}"] == [
        (f"{merchant.name} merchant:{merchant.name}", "access.enumeration", "done")
    ]


def test_who_tries_ids_in_a_session_of_the_console_is_found(public: PublicSystem, visitors: Visitors) -> None:
    name = f"s_{uuid.uuid4().hex[:12]}"
    reader = visitors(name, "console:read")
    for n in range(limits.ACCESS_MISSES_MAX + 30):
        assert reader.get(f"/console/cases/case_{n:026}").status_code == 404
    cases = "select split_part(reference, ' ', 1), state from repair_case where kind = 'suspicious_access' and reference like %s"
    eventually(lambda: public.rows(cases, f"% {name}") == [("enumeration", "open")], 30)

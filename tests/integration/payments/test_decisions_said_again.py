"""Who says the same decision again hears the same, marked as replayed; a first answer is not marked."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.integration.payments.test_case_closings import WHY
from tests.worlds.payments.repair_world import NOTE, ann, bob, opened, propose
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers

RESERVE = {"amount": 10, "currency": "EUR", "reason": "a risk"}


def made(say: Callable[[], httpx.Response], status: int) -> str:
    """What is said twice, by its id."""
    first, again = say(), say()
    assert (first.status_code, again.status_code) == (status, status), (first.text, again.text)
    marks = [answer.headers.get("idempotency-replayed") for answer in (first, again)]
    assert marks == [None, "true"], first.text
    assert (first.headers.get("location"), first.json()) == (again.headers.get("location"), again.json())
    return str(first.json().get("id"))


def test_what_two_persons_decide_of_cases_is_marked_when_it_is_said_again(
    public: PublicSystem, ann: Merchant, bob: Merchant
) -> None:
    case_id, key = opened(public, currency="USD"), uuid.uuid4().hex
    repair = f"/v1/repairs/{made(lambda: propose(ann, case_id, key), 201)}"
    made(lambda: bob.http.post(f"{repair}/reject", json={"note": NOTE}), 200)

    closing = {"idempotency_key": uuid.uuid4().hex, "payload": WHY}
    closings = f"/v1/cases/{case_id}/closings"
    closing_id = made(lambda: ann.http.post(closings, json=closing), 201)
    made(lambda: bob.http.post(f"{closings}/{closing_id}/approve", json={}), 200)
    made(lambda: bob.http.post(f"/v1/cases/{case_id}/reopen", json={"note": "look again"}), 200)


def test_a_reversal_is_marked_when_it_is_said_again(public: PublicSystem, ann: Merchant, bob: Merchant) -> None:
    """Also with the key in the header, and whoever waits for the owner."""
    repair = f"/v1/repairs/{propose(ann, opened(public)).json()['id']}"
    assert bob.http.post(f"{repair}/approve", json={}).status_code in (200, 202)
    approved = bob.http.post(f"{repair}/approve", json={})
    assert approved.headers["idempotency-replayed"] == "true", approved.text
    key = {"Idempotency-Key": uuid.uuid4().hex}
    made(lambda: bob.http.post(f"{repair}/reverse", json={"note": "wrong"}, headers=key), 201)


def test_money_by_hand_is_marked_when_it_is_proposed_again(merchant: Merchant, ann: Merchant) -> None:
    assert merchant.create().status_code == 201
    proposal = {"idempotency_key": uuid.uuid4().hex, "payload": RESERVE}
    made(lambda: ann.http.post(f"/v1/accounts/{merchant.name}/hold_reserve", json=proposal), 201)


def test_a_policy_that_waits_for_a_second_person_is_marked_when_it_is_said_again(
    public: PublicSystem, ann: Merchant
) -> None:
    path = "/v1/bank_rules/policies"
    with public.policies():
        newest = ann.http.get(path).json()["data"]
        rules = [{"name": "own", "direction": "out", "text": uuid.uuid4().hex}]
        document = {"expected_version": newest[0]["version"] if newest else 0, "rules": rules}
        made(lambda: ann.http.post(path, json=document), 202)
        other = ann.http.post(path, json=document | {"rules": []})
        assert (other.status_code, "idempotency-replayed" in other.headers) == (202, False), "it is another document"


def test_a_denial_is_marked_when_it_is_said_again(ann: Merchant) -> None:
    denied = {"name": f"jti_{uuid.uuid4().hex}", "reason": "stolen"}
    made(lambda: ann.http.post("/v1/access_denials/token", json=denied), 200)

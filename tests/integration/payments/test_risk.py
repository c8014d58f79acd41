"""Risk on the running system: rules block, let through or ask a person, and everything says why."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from tests.eventually import eventually, patient
from tests.worlds.payments.risk_cases import above
from tests.worlds.payments.risk_world import Rules, confirmed, created, valkey_frozen
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


@pytest.fixture
def rules(public: PublicSystem) -> Iterator[Rules]:
    """Publishes; in the end nothing is forbidden any more."""
    operator = public.merchant(scopes=("operator",))
    found = Rules(public, operator)
    with public.policies():
        yield found
        assert found.post(found.active()).status_code == 201
    operator.http.close()


def rule(name: str, *when: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": name, "when": list(when), "outcome": "block"} | changes


def settled(merchant: Merchant, intent_id: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        answer = merchant.http.get(f"/v1/payment_intents/{intent_id}", headers={"Prefer": "wait=30"})
        found: dict[str, Any] = answer.json()
        return found if found["state"] != "processing" else None

    return eventually(over, 60)


def uncounted(rules: Rules, *intent_ids: str) -> bool:
    """Whether a rule says that it was not told a count: no payment waits for one, and a busy machine counts late."""
    said = [one for intent_id in intent_ids for one in rules.said(intent_id)]
    return any("not known" in reason["detail"] for one in said for reason in one["reasons"])


def audited(public: PublicSystem, intent_id: str) -> list[tuple[str, str]]:
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select action, outcome from audit_log where object = %s and action = 'risk.review' order by seq"
        return connection.execute(query, (intent_id,)).fetchall()


def test_a_blocked_payment_is_never_sent_and_says_why(
    public: PublicSystem, merchant: Merchant, stranger: Merchant, rules: Rules
) -> None:
    version = rules.publish(merchant, rule("too_much", above(50_000)))
    intent_id = created(merchant, amount=50_001)
    answer = merchant.act(intent_id, "confirm", "k1")
    result = answer.json()["result"]
    assert (answer.status_code, result["state"]) == (200, "requires_payment_method")
    assert result["last_payment_error"] == {"code": "blocked_by_risk"}
    again = merchant.act(intent_id, "confirm", "k1")
    assert (again.json(), again.headers["idempotency-replayed"]) == (answer.json(), "true")
    (said,) = rules.said(intent_id)
    assert (said["outcome"], said["attempt"], said["policy_version"]) == ("block", 1, version)
    assert [reason["rule"] for reason in said["reasons"]] == ["too_much"]
    assert "50001 USD is more than 50000" in said["reasons"][0]["detail"]

    allowed = created(merchant, amount=50_000)
    assert confirmed(merchant, allowed)["state"] == "processing"
    assert settled(merchant, allowed)["state"] == "succeeded"
    assert [(a["outcome"], a["reasons"]) for a in rules.said(allowed)] == [("allow", [])]
    foreign = created(stranger, amount=90_000)
    assert confirmed(stranger, foreign)["state"] == "processing", "the list names another merchant"

    rules.publish(merchant, rule("too_much", above(90_000)))
    assert confirmed(merchant, intent_id)["state"] == "processing"
    assert settled(merchant, intent_id)["state"] == "succeeded"
    book = httpx.get(f"{public.settings.addresses().processor_url}/book", timeout=20).json()
    assert [e["operation_id"] for e in book["captured"] if e["reference"] == intent_id] == [
        f"op_{intent_id.removeprefix('pi_')}_2"
    ]


def test_a_review_waits_for_an_operator_who_approves(public: PublicSystem, merchant: Merchant, rules: Rules) -> None:
    rules.publish(merchant, rule("look", above(100), outcome=None, score=40), thresholds={"review": 30, "block": 80})
    intent_id = created(merchant)
    assert confirmed(merchant, intent_id)["state"] == "requires_merchant_action"
    case = rules.case(intent_id)
    assert (case["state"], case["evidence"]["score"], case["evidence"]["merchant_id"]) == ("open", 40, merchant.name)
    assert [reason["rule"] for reason in case["evidence"]["reasons"]] == ["look"]
    assert public.rows("select 1 from processor_attempt where intent_id = %s", intent_id) == []
    proposal = {"idempotency_key": "k", "payload": {"template": "write_off", "note": "n", "amount": 1}}
    repaired = rules.operator.http.post(f"/v1/cases/{case['id']}/proposals", json=proposal)
    assert (repaired.status_code, repaired.json()["code"]) in [(409, "state_conflict"), (422, "invalid_command")]

    answer = rules.review(intent_id, "approve", "k", note="known customer")
    assert (answer.status_code, answer.json()["result"]["state"]) == (200, "processing")
    assert settled(merchant, intent_id)["state"] == "succeeded"
    again = rules.review(intent_id, "approve", "k", note="known customer")
    assert (again.json(), again.headers["idempotency-replayed"]) == (answer.json(), "true")
    other = rules.review(intent_id, "reject", "k")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    late = rules.review(intent_id, "reject")
    assert (late.status_code, late.json()["code"], late.json()["current_state"]) == (409, "state_conflict", "succeeded")
    case = rules.case(intent_id)
    person = rules.operator.name
    assert (case["state"], case["resolved_by"], case["note"]) == ("resolved", person, "approved: known customer")
    assert [(a["decided_by"], a["outcome"]) for a in rules.said(intent_id)] == [(None, "review"), (person, "allow")]
    assert audited(public, intent_id)[:2] == [("risk.review", "begun"), ("risk.review", "done")]


def test_an_approval_goes_where_the_confirm_would_have_gone(
    public: PublicSystem, merchant: Merchant, rules: Rules
) -> None:
    policies = "/v1/routing/policies"
    newest = rules.operator.http.get(policies).json()["data"]
    german = {"merchant": [merchant.name], "country": ["DE"]}
    routing = {
        "rules": [{"name": "german", "when": german, "candidates": [{"processor": "simulator"}]}],
        "expected_version": newest[0]["version"] if newest else 0,
    }
    second = public.merchant(scopes=("operator",))
    assert [person.http.post(policies, json=routing).status_code for person in (rules.operator, second)] == [202, 201]
    second.http.close()
    rules.publish(merchant, rule("look", above(100), outcome="review"))  # once it is in force, so is the routing
    for country, chosen in (("DE", ": german"), (None, "; no rule fits")):
        intent_id = created(merchant)
        waits = confirmed(merchant, intent_id, **({"card_country": country} if country else {}))
        assert waits["state"] == "requires_merchant_action"
        assert rules.case(intent_id)["evidence"]["card"] == {"network": None, "country": country}
        assert rules.review(intent_id, "approve").status_code == 200
        ((route,),) = public.rows("select route from processor_attempt where intent_id = %s", intent_id)
        assert route.endswith(chosen)


def test_a_review_is_rejected_or_given_up_by_its_merchant(merchant: Merchant, rules: Rules) -> None:
    rules.publish(merchant, rule("look", above(100), outcome="review"))
    rejected, given_up = created(merchant), created(merchant)
    for intent_id in (rejected, given_up):
        assert confirmed(merchant, intent_id)["state"] == "requires_merchant_action"
    result = rules.review(rejected, "reject").json()["result"]
    assert (result["state"], result["cancellation_reason"]) == ("canceled", "fraudulent")
    assert rules.case(rejected)["note"] == "rejected"
    assert merchant.act(given_up, "cancel").json()["result"]["state"] == "canceled"
    case = rules.case(given_up)
    assert (case["state"], case["resolved_by"]) == ("resolved", merchant.name)
    assert rules.review(given_up, "approve").status_code == 409


def test_nobody_but_an_operator_reviews_or_publishes(public: PublicSystem, merchant: Merchant, rules: Rules) -> None:
    rules.publish(merchant, rule("look", above(100), outcome="review"))
    intent_id = created(merchant)
    confirmed(merchant, intent_id)
    body = {"idempotency_key": "k", "payload": {"decision": "approve"}}
    path = f"/v1/payment_intents/{intent_id}/review"
    refused = merchant.http.post(path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert audited(public, intent_id)[-1] == ("risk.review", "refused")
    for path_ in ("/v1/risk/policies", "/v1/routing/policies"):
        assert merchant.http.post(path_, json={"expected_version": 0}).status_code == 403
        assert merchant.http.get(path_).status_code == 403
    line = {"operation": f"POST {path}", **body, "payload": {"decision": "approve", "reviewer": "merchant:ann"}}
    headers = {"Content-Type": "application/x-ndjson"}
    for caller in (merchant, rules.operator):
        answer = caller.http.post("/v1/commands", content=json.dumps(line), headers=headers)
        assert answer.status_code == 403 or answer.json()["problem"]["code"] == "malformed_request", answer.text
    said = rules.review(intent_id, "approve", reviewer="merchant:ann")
    assert (said.status_code, said.json()["code"]) == (400, "malformed_request")
    for wrong in ({"decision": "maybe"}, {"decision": None}, {"note": "x\x00"}, {"note": "4242 4242 4242 4242"}):
        answer = rules.review(intent_id, **({"decision": "approve"} | wrong))  # type: ignore[arg-type] # wrong on purpose
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
    assert rules.review("pi_nobody", "approve").status_code == 404
    assert settled(merchant, intent_id)["state"] == "requires_merchant_action"


def test_velocity_counts_over_every_ingress_process_and_a_retry_once(merchant: Merchant, rules: Rules) -> None:
    fast = {"type": "velocity", "by": "ip", "window_s": 600, "more_than": 5}
    rules.publish(merchant, rule("fast", fast, when_unknown="hit"))
    hosts = itertools.count(1)

    def counted() -> tuple[list[str], list[str]] | None:
        one, another = (f"203.0.113.{next(hosts)}" for _ in range(2))
        ids = [created(merchant) for _ in range(7)]
        places = [one] * 6 + [another]
        states = [confirmed(merchant, i, customer_ip=ip)["state"] for i, ip in zip(ids, places, strict=True)]
        return None if uncounted(rules, *ids) else (ids, states)

    ids, states = eventually(counted)
    assert states == ["processing"] * 5 + ["requires_payment_method", "processing"]
    assert "6 confirms by ip in 600 s, more than 5" in rules.said(ids[5])[0]["reasons"][0]["detail"]
    nowhere = created(merchant)
    assert confirmed(merchant, nowhere)["state"] == "requires_payment_method", "an ip that is kept back is a hit"


def test_velocity_of_a_list_of_commands_and_of_amounts(public: PublicSystem, rules: Rules) -> None:
    much = {"type": "velocity", "by": "merchant", "measure": "amount", "currency": "USD", "window_s": 600}

    def counted() -> tuple[list[str], list[str]] | None:
        shop = public.merchant()  # nothing of it was counted before
        with shop.http:
            rules.publish(shop, rule("much", much | {"more_than": 2_500}, when_unknown="hit"))
            ids = [created(shop, amount=1_000) for _ in range(3)]
            lines = [
                {
                    "operation": f"POST /v1/payment_intents/{i}/confirm",
                    "idempotency_key": uuid.uuid4().hex,
                    "payload": {},
                }
                for i in ids
            ]
            text = "\n".join(json.dumps(line) for line in lines)
            answer = shop.http.post("/v1/commands", content=text, headers={"Content-Type": "application/x-ndjson"})
            states = [json.loads(line)["result"]["state"] for line in answer.text.splitlines()]
            ids.append(created(shop, amount=9_000, currency="EUR"))
            states.append(confirmed(shop, ids[-1])["state"])
        return None if uncounted(rules, *ids) else (ids, states)

    ids, states = eventually(counted, 60)
    assert states == ["processing", "processing", "requires_payment_method", "processing"]
    assert "3000 USD by merchant" in rules.said(ids[2])[0]["reasons"][0]["detail"]


def test_a_card_is_known_by_its_fingerprint_whatever_its_tokens(
    public: PublicSystem, merchant: Merchant, rules: Rules
) -> None:
    url = f"{public.settings.addresses().vault_url}/v1/tokens"
    often = {"type": "velocity", "by": "card", "window_s": 600, "more_than": 1}
    listed = {"type": "in_list", "field": "card", "list": "stolen"}
    numbers = iter(("4242424242424242", "4111111111111111", "4012888888881881"))  # each is counted from nothing

    def counted() -> tuple[str, list[str]] | None:
        card = {"number": next(numbers), "exp_month": 12, "exp_year": 2040, "cvc": "123"}
        made = [
            merchant.http.post(url, json={"idempotency_key": uuid.uuid4().hex, "payload": card}).json()["result"]
            for _ in range(2)
        ]
        assert made[0]["id"] != made[1]["id"]
        rules.publish(
            merchant,
            rule("often", often, when_unknown="hit"),
            rule("stolen", listed, {"type": "network", "any_of": ["visa"]}, shadow=True, when_unknown="miss"),
            lists={"stolen": [made[0]["fingerprint"]]},
        )
        first = created(merchant, payment_method=made[0]["id"])
        states = [confirmed(merchant, first)["state"]]
        second = created(merchant, payment_method=None)
        states.append(confirmed(merchant, second, payment_method=made[1]["id"])["state"])
        return None if uncounted(rules, first, second) else (first, states)

    first, states = eventually(counted, 60)
    assert states == ["processing", "requires_payment_method"]
    assert [(r["rule"], r["shadow"]) for r in rules.said(first)[0]["reasons"]] == [("stolen", True)]
    assert settled(merchant, first)["state"] == "succeeded"


@pytest.mark.alone  # nobody counts meanwhile
def test_without_valkey_every_rule_says_itself_what_that_means(
    public: PublicSystem, merchant: Merchant, rules: Rules
) -> None:
    fast = {"type": "velocity", "by": "merchant", "window_s": 600, "more_than": 1_000}
    currencies = {"hit": "USD", "review": "EUR", "miss": "CHF"}
    rules.publish(
        merchant,
        *(rule(word, fast, {"type": "currency", "any_of": [c]}, when_unknown=word) for word, c in currencies.items()),
    )
    ids = {word: created(merchant, currency=c) for word, c in currencies.items()}
    with valkey_frozen(public):
        began = time.monotonic()
        states = {word: confirmed(merchant, intent_id)["state"] for word, intent_id in ids.items()}
        assert time.monotonic() - began < patient(20), "no payment waits for a counter"
    assert states == {"hit": "requires_payment_method", "review": "requires_merchant_action", "miss": "processing"}
    assert "not known" in rules.said(ids["hit"])[0]["reasons"][0]["detail"]

    def counts_again() -> bool:
        return confirmed(merchant, created(merchant, currency="USD"))["state"] == "processing"

    eventually(counts_again, 30, what="it recovers by itself")


def test_versions_follow_one_another_and_never_change(public: PublicSystem, rules: Rules) -> None:
    before = rules.active()
    document = {"rules": [rule("r", above(9_000_000_000))], "thresholds": {"block": 90}}
    made = rules.post(before, **document)
    assert (made.status_code, made.json()["version"], made.json()["state"]) == (201, before + 1, "active")
    assert made.headers["location"] == f"/v1/risk/policies/{before + 1}"
    again = rules.post(before, **document)
    assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (201, made.json(), "true")
    conflict = rules.post(before, rules=[])
    assert (conflict.status_code, conflict.json()["code"]) == (409, "version_conflict")
    assert conflict.json()["current_version"] == before + 1
    rival = Rules(public, public.merchant(scopes=("operator",)))
    with rival.operator.http:
        assert rival.post(before, **document).status_code == 409, "another person's same words are another publication"
        assert rival.post(before + 1).json()["version"] == before + 2
    one = rules.operator.http.get(f"/v1/risk/policies/{before + 1}")
    assert (one.json()["state"], one.json()["policy"]["rules"][0]["name"]) == ("retired", "r")
    page = rules.operator.http.get("/v1/risk/policies", params={"limit": 1}).json()
    assert page["data"][0]["version"] == before + 2
    rest = rules.operator.http.get("/v1/risk/policies", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert rest["data"][0] == one.json()
    for path in ("/v1/risk/policies/999999", "/v1/risk/policies/x", "/v1/risk/policies/0"):
        assert rules.operator.http.get(path).status_code == 404
    assert rules.operator.http.get("/v1/risk/policies", params={"cursor": "x"}).status_code == 422
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        for change in ("set body = '{}'", "set state = 'active'", "set author = 'x'"):
            with pytest.raises(psycopg.Error, match="never changes"):
                connection.execute(f"update policy_version {change} where kind = 'risk' and version = {before + 1}")
            connection.rollback()
        with pytest.raises(psycopg.Error, match="never changes"):
            connection.execute("delete from policy_version")


BAD_BODIES = [
    (b"{", 400, "malformed_request"),
    (b"[]", 400, "malformed_request"),
    (b'{"expected_version": 0, "rules": [], "rules": []}', 400, "malformed_request"),
    (b'{"expected_version": 0, "rules": [{"name": "\\ud800", "when": []}]}', 400, "malformed_request"),
    (b"{}", 422, "invalid_command"),
    (b'{"expected_version": true}', 422, "invalid_command"),
    (b'{"expected_version": -1}', 422, "invalid_command"),
    (b'{"expected_version": 0, "rules": 1}', 422, "invalid_command"),
    (b'{"expected_version": 0, "rules": [{"name": "no spaces", "when": []}]}', 422, "invalid_command"),
    (b'{"expected_version": 0, "more": 1}', 422, "invalid_command"),
    (b'{"expected_version": 0, "x": "' + b"x" * 600_000 + b'"}', 413, "too_large"),
]


@pytest.mark.parametrize("kind", ["risk", "routing"])
def test_a_bad_policy_is_refused_and_changes_nothing(rules: Rules, kind: str) -> None:
    path, headers = f"/v1/{kind}/policies", {"Content-Type": "application/json"}
    before = rules.operator.http.get(path).json()
    for body, status, code in BAD_BODIES:
        answer = rules.operator.http.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert code != "invalid_command" or all(e["reason"] for e in answer.json()["errors"])
    assert rules.operator.http.post(path, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert rules.operator.http.get(path).json() == before

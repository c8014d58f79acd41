"""Merchants' accounts over HTTP: payouts, what operators do; and that nobody sees another's."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from schemas import identity
from schemas.payments import limits
from tests.eventually import becomes
from tests.integration.payments.test_ingress_disputes import produce
from tests.worlds.payments.reference_rates import publish_rates
from tests.worlds.payments.repair_world import posted_by_hand
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers
PAYOUTS = "/v1/payouts"
DESTINATION = {"destination": "main account"}


@pytest.fixture
def other(public: PublicSystem) -> Iterator[Merchant]:
    """Another person with the operator's scope."""
    caller = public.merchant(scopes=("operator",))
    yield caller
    caller.http.close()


@pytest.fixture
def operator(public: PublicSystem) -> Iterator[Merchant]:
    """Somebody with the operator's scope."""
    caller = public.merchant(scopes=("operator",))
    yield caller
    caller.http.close()


def fund(public: PublicSystem, merchant: Merchant, amount: int, currency: str = "EUR") -> None:
    """Money becomes available by a repair of two persons."""
    entries = [
        {"account_id": f"{account}:{currency}", "debit": debit, "credit": amount - debit, "currency": currency}
        for account, debit in (("processor_receivable:simulator", amount), (f"merchant_available:{merchant.name}", 0))
    ]
    before = balance(merchant, currency)["available"]
    posted_by_hand(public, entries)
    assert balance(merchant, currency)["available"] == before + amount


def balance(merchant: Merchant, currency: str = "EUR") -> dict[str, int]:
    rows = merchant.http.get("/v1/balance").json()["data"]
    nothing = {"pending": 0, "available": 0, "reserved": 0}
    return next((row for row in rows if row["currency"] == currency), nothing)


def pay_out(merchant: Merchant, amount: Any, key: str | None = None, **payload: Any) -> httpx.Response:
    body = {"amount": amount, "currency": "EUR"} | DESTINATION | payload
    return merchant.http.post(PAYOUTS, json={"idempotency_key": key or uuid.uuid4().hex, "payload": body})


def operate(operator: Merchant, path: str, key: str | None = None, **payload: Any) -> httpx.Response:
    return operator.http.post(f"/v1/{path}", json={"idempotency_key": key or uuid.uuid4().hex, "payload": payload})


def tell(operator: Merchant, payout: dict[str, Any], status: str, **said: Any) -> httpx.Response:
    fact = {
        "status": status,
        "amount": payout["amount"],
        "currency": payout["currency"],
        "bank": "AT61",
        "reason": None,
    }
    return operate(operator, f"payouts/{payout['id']}/outcome", **(fact | said))


def approved(answer: httpx.Response, other: Merchant) -> dict[str, Any]:
    """The proposal that the answer is, after another person has approved it."""
    assert (answer.status_code, answer.json()["state"]) == (201, "proposed"), answer.text
    decided = other.http.post(f"/v1/money_proposals/{answer.json()['id']}/approve")
    assert decided.status_code == 200, decided.text
    found: dict[str, Any] = decided.json()
    return found


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text[:300]
    problem: dict[str, Any] = answer.json()
    return problem


def test_a_payout_is_one_and_its_way_is_seen(
    public: PublicSystem, merchant: Merchant, operator: Merchant, other: Merchant
) -> None:
    fund(public, merchant, 1_000)
    first = pay_out(merchant, 600, "k", metadata={"run": "7"})
    assert first.status_code == 201, first.text
    made = first.json()["result"]
    assert (made["object"], made["state"], made["version"], made["amount"]) == ("payout", "pending", 1, 600)
    assert (first.headers["etag"], first.headers["location"]) == ('"1"', f"{PAYOUTS}/{made['id']}")
    again = pay_out(merchant, 600, "k", metadata={"run": "7"})
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    refused(pay_out(merchant, 601, "k"), 422, "key_reused")
    assert refused(pay_out(merchant, 401), 422, "insufficient_funds")["available"] == 400
    assert merchant.http.get(f"{PAYOUTS}/{made['id']}").json() == made
    assert approved(tell(operator, made, "paid"), other)["state"] == "done"
    assert merchant.http.get(f"{PAYOUTS}/{made['id']}").json()["state"] == "paid"
    again = approved(tell(operator, made, "paid"), other)
    assert (again["state"], again["refusal"]) == ("refused", "stale_fact")
    refused(merchant.http.post(f"{PAYOUTS}/{made['id']}/cancel", json={"idempotency_key": "c"}), 409, "state_conflict")
    approved(tell(operator, made, "failed", reason="account closed"), other)
    returned = merchant.http.get(f"{PAYOUTS}/{made['id']}").json()
    assert (returned["state"], returned["failure_reason"], returned["version"]) == ("failed", "account closed", 3)
    assert balance(merchant) == {"currency": "EUR", "pending": 0, "available": 1_000, "reserved": 0}
    events = merchant.http.get("/v1/events").json()["data"]
    told = [(e["operation"], e["body"]["payout"]["state"]) for e in events if e["body"].get("payout")]
    assert told == [("create_payout", "pending"), *[("record_payout_outcome", s) for s in ("paid", "failed")]]


def test_a_pending_payout_is_canceled_by_its_version(public: PublicSystem, merchant: Merchant) -> None:
    fund(public, merchant, 100)
    made = pay_out(merchant, 100).json()["result"]
    path = f"{PAYOUTS}/{made['id']}/cancel"
    refused(
        merchant.http.post(path, json={}, headers={"Idempotency-Key": "a", "If-Match": '"9"'}), 409, "version_conflict"
    )
    done = merchant.http.post(path, json={}, headers={"Idempotency-Key": "b", "If-Match": '"1"'})
    assert (done.status_code, done.json()["result"]["state"], done.headers["etag"]) == (200, "canceled", '"2"')
    assert balance(merchant)["available"] == 100


def test_who_takes_payments_pays_out_only_with_the_scope_for_it(public: PublicSystem, merchant: Merchant) -> None:
    """By neither door, and cancels none; who only pays out takes no payment."""
    fund(public, merchant, 100)
    made = pay_out(merchant, 40).json()["result"]
    taker = public.merchant(merchant.name, scopes=("payments:read", "payments:write"))
    payer = public.merchant(merchant.name, scopes=("payouts:write",))
    with taker.http, payer.http:
        refused(pay_out(taker, 10), 403, "forbidden")
        refused(taker.http.post(f"{PAYOUTS}/{made['id']}/cancel", json={"idempotency_key": "c"}), 403, "forbidden")
        payload = {"amount": 10, "currency": "EUR", "destination": "ba_1"}
        line = {"operation": f"POST {PAYOUTS}", "idempotency_key": "line", "payload": payload}
        bulk = {"content": json.dumps(line), "headers": {"Content-Type": "application/x-ndjson"}}
        assert json.loads(taker.http.post("/v1/commands", **bulk).text)["problem"]["code"] == "forbidden"
        refused(payer.create(), 403, "forbidden")
        assert pay_out(payer, 10).status_code == 201
    assert balance(merchant)["available"] == 50


def test_an_operator_of_one_role_decides_what_is_its_own(public: PublicSystem, merchant: Merchant) -> None:
    """All read; finance moves money and freezes nobody, risk freezes and moves none, support does neither."""
    fund(public, merchant, 100)
    finance, risk, support = (public.merchant(scopes=(f"operator:{role}",)) for role in ("finance", "risk", "support"))
    account, reserve = f"accounts/{merchant.name}", {"amount": 10, "currency": "EUR", "reason": "r"}
    with finance.http, risk.http, support.http:
        for one in (finance, risk, support):
            assert one.http.get(f"/v1/{account}").status_code == 200
            assert one.http.get("/v1/cases").status_code == 200
        for one in (risk, support):
            refused(operate(one, f"{account}/hold_reserve", **reserve), 403, "forbidden")
        held = operate(finance, f"{account}/hold_reserve", **reserve)
        assert held.json()["state"] == "proposed", held.text
        refused(support.http.post(f"/v1/money_proposals/{held.json()['id']}/approve"), 403, "forbidden")
        for one in (finance, support):
            refused(operate(one, f"{account}/freeze", reason="x"), 403, "forbidden")
        assert operate(risk, f"{account}/freeze", reason="x").status_code == 200
        assert operate(risk, f"{account}/unfreeze", reason="x").status_code == 200
        refused(risk.http.post("/v1/maintenance/policies", json={"expected_version": 0, "on": True}), 403, "forbidden")


def test_payouts_in_a_race_spend_what_there_is_and_no_more(public: PublicSystem, merchant: Merchant) -> None:
    fund(public, merchant, 1_000)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: pay_out(merchant, 300, f"race{n}"), range(12)))
    assert sorted(a.status_code for a in answers) == [201] * 3 + [422] * 9
    assert balance(merchant)["available"] == 100
    listed = merchant.http.get(PAYOUTS, params={"limit": 2}).json()
    rest = merchant.http.get(PAYOUTS, params={"limit": 2, "cursor": listed["next_cursor"]}).json()
    ids = [p["id"] for p in listed["data"] + rest["data"]]
    assert sorted(ids) == sorted(a.json()["result"]["id"] for a in answers if a.status_code == 201)


def test_another_merchants_payout_does_not_exist(
    public: PublicSystem, merchant: Merchant, stranger: Merchant, operator: Merchant, other: Merchant
) -> None:
    fund(public, merchant, 100)
    made = pay_out(merchant, 100).json()["result"]
    path = f"{PAYOUTS}/{made['id']}"
    refused(stranger.http.get(path), 404, "not_found")
    refused(stranger.http.post(f"{path}/cancel", json={"idempotency_key": "x"}), 404, "not_found")
    assert stranger.http.get(PAYOUTS).json()["data"] == []
    refused(tell(merchant, made, "paid"), 403, "forbidden")
    refused(merchant.http.get(f"/v1/accounts/{merchant.name}"), 403, "forbidden")
    refused(operate(merchant, f"accounts/{merchant.name}/freeze", reason="x"), 403, "forbidden")
    refused(operator.http.get("/v1/accounts/m_nobody_at_all"), 404, "not_found")
    nobodys = operate(operator, "payouts/pt_unknown/outcome", status="paid", amount=1, currency="EUR", bank="B")
    assert approved(nobodys, other)["refusal"] == "not_found"


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"amount": 0}, "payload.amount"),
        ({"amount": True}, "payload.amount"),
        ({"amount": "5"}, "payload.amount"),
        ({"amount": 2**53}, "payload.amount"),
        ({"currency": "eur"}, "payload.currency"),
        ({"destination": ""}, "payload.destination"),
        ({"destination": "x" * 129}, "payload.destination"),
        ({"destination": "4242 4242 4242 4242"}, "payload.destination"),
        ({"metadata": {"k": 1}}, "payload.metadata"),
        ({"payout": "pt_x"}, "payload.payout"),
    ],
)
def test_a_payout_with_wrong_values_changes_nothing(merchant: Merchant, payload: dict[str, Any], field: str) -> None:
    answer = pay_out(merchant, **({"amount": 1} | payload))
    assert [e["field"] for e in refused(answer, 422, "invalid_command")["errors"]] == [field]


@pytest.mark.parametrize(
    ("action", "payload", "field"),
    [
        ("freeze", {}, "payload.reason"),
        ("unfreeze", {"reason": ""}, "payload.reason"),
        ("hold_reserve", {"amount": -1, "currency": "EUR", "reason": "r"}, "payload.amount"),
        ("release_reserve", {"amount": 1, "currency": "XAU", "reason": "r"}, "payload.currency"),
        ("convert_currency", {"rate": "1e3"}, "payload.rate"),
        ("convert_currency", {"rate": 1.5}, "payload.rate"),
        ("convert_currency", {"rate": "0.000"}, "payload.rate"),
    ],
)
def test_an_operators_command_with_wrong_values_changes_nothing(
    operator: Merchant, action: str, payload: dict[str, Any], field: str
) -> None:
    whole = {"source_amount": 1, "source_currency": "EUR", "target_amount": 1, "target_currency": "USD"}
    given = whole | payload if action == "convert_currency" else payload
    answer = operate(operator, f"accounts/{operator.name}/{action}", **given)
    assert field in [e["field"] for e in refused(answer, 422, "invalid_command")["errors"]]


def test_whose_account_it_is_stands_in_the_path_alone(operator: Merchant) -> None:
    refused(
        operate(operator, f"accounts/{operator.name}/freeze", reason="r", merchant_id="m_other"),
        400,
        "malformed_request",
    )
    refused(operate(operator, "accounts/m%20x/freeze", reason="r"), 404, "not_found")


def test_a_frozen_merchant_begins_nothing_and_facts_are_taken(
    public: PublicSystem, merchant: Merchant, operator: Merchant, other: Merchant
) -> None:
    fund(public, merchant, 1_000)
    made = pay_out(merchant, 300).json()["result"]
    created = merchant.create().json()["result"]
    frozen = operate(operator, f"accounts/{merchant.name}/freeze", "once", reason="court order")
    assert (frozen.status_code, frozen.json()["result"]["state"]) == (200, "frozen")
    again = operate(operator, f"accounts/{merchant.name}/freeze", "once", reason="court order")
    assert (again.content, again.headers["idempotency-replayed"]) == (frozen.content, "true")
    refused(pay_out(merchant, 1), 409, "account_frozen")
    becomes(lambda: merchant.create().status_code, 409, 15)
    refused(merchant.create(), 409, "account_frozen")
    refused(merchant.act(created["id"], "confirm"), 409, "account_frozen")
    assert approved(tell(operator, made, "paid"), other)["state"] == "done"
    seen = operator.http.get(f"/v1/accounts/{merchant.name}").json()
    assert (seen["state"], seen["frozen_reason"]) == ("frozen", "court order")
    assert seen["balances"]["data"] == [balance(merchant)]
    assert operate(operator, f"accounts/{merchant.name}/unfreeze", reason="settled").status_code == 200
    assert pay_out(merchant, 1).status_code == 201
    assert merchant.create().status_code == 201  # at once: a refusal would be the answer to its key for ever
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        rows = connection.execute(
            "select action, outcome, details->'payload'->>'reason' from audit_log"
            " where object = %s and action like 'account.%%freeze%%' order by seq",
            (merchant.name,),
        ).fetchall()
    assert [(action.removeprefix("account."), outcome) for action, outcome, _ in rows] == [
        *[("freeze_account", outcome) for outcome in ("begun", "done", "begun", "done")],
        *[("unfreeze_account", outcome) for outcome in ("begun", "done")],
    ]
    assert rows[0][2] == "court order"


def test_who_takes_a_partition_obeys_a_freeze_that_was_published_while_postgres_was_away_from_it(
    public: PublicSystem, merchant: Merchant, operator: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounds that read policies may find Postgres again a moment after the lanes do."""
    book, unread = PolicyBook(), PolicyBook()
    dsn = public.settings.addresses().postgres_dsns["millrace_owner"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        book.refresh(connection)
        assert operate(operator, f"accounts/{merchant.name}/freeze", reason="r").status_code == 200
        monkeypatch.setattr(limits, "POLICIES_RECENT_S", 0)  # as if the last round were long ago
        assert merchant.name not in book.current.frozen_merchants
        for policies in (book, unread):
            PaymentsPartition(connection, 0, FeeSchedule(), "simulator", policies)
        assert merchant.name in book.current.frozen_merchants
        assert not unread.is_complete, "the owner still waits for its first round"


def test_reserves_and_exchanges_move_what_there_is(
    public: PublicSystem, merchant: Merchant, operator: Merchant, other: Merchant
) -> None:
    publish_rates(public, operator, other)
    poor = {"source_amount": 100, "source_currency": "EUR", "target_amount": 162, "target_currency": "JPY"}
    ask = partial(operate, operator, "accounts/m_without_money/convert_currency", rate="162", **poor)
    becomes(lambda: approved(ask(), other)["refusal"], "insufficient_funds", 30)  # owners have read it
    fund(public, merchant, 10_000)
    account = f"accounts/{merchant.name}"
    held = {"currency": "EUR", "reason": "many refunds"}
    assert approved(operate(operator, f"{account}/hold_reserve", amount=4_000, **held), other)["state"] == "done"
    assert balance(merchant) == {"currency": "EUR", "pending": 0, "available": 6_000, "reserved": 4_000}
    over = approved(operate(operator, f"{account}/release_reserve", amount=4_001, **held), other)
    assert (over["state"], over["refusal"]) == ("refused", "insufficient_funds")
    assert approved(operate(operator, f"{account}/release_reserve", amount=1_000, **held), other)["state"] == "done"
    exchange = {"source_amount": 7_000, "source_currency": "EUR", "target_amount": 11_365, "target_currency": "JPY"}
    wrong = approved(operate(operator, f"{account}/convert_currency", rate="162.5", **exchange), other)
    assert (wrong["state"], wrong["refusal"]) == ("refused", "invalid_command")
    far = exchange | {"target_amount": 11_450}
    dear = approved(operate(operator, f"{account}/convert_currency", rate="163.57", **far), other)
    assert (dear["state"], dear["refusal"]) == ("refused", "rate_outside_band")
    same = exchange | {"target_currency": "EUR"}
    assert approved(operate(operator, f"{account}/convert_currency", rate="1", **same), other)["state"] == "refused"
    exact = operate(operator, f"{account}/convert_currency", rate="162.35", **exchange)
    assert approved(exact, other)["state"] == "done"
    assert (balance(merchant)["available"], balance(merchant, "JPY")["available"]) == (0, 11_365)


def test_nobody_moves_a_merchants_money_alone(
    public: PublicSystem, merchant: Merchant, operator: Merchant, other: Merchant
) -> None:
    """A cent is no fortune at a rate that one person names; nor is a payout paid twice because one person says so."""
    fund(public, merchant, 1)
    path = f"accounts/{merchant.name}/convert_currency"
    exchange = {"source_amount": 1, "source_currency": "EUR", "target_amount": 90_000_000, "target_currency": "USD"}
    made = operate(operator, path, "k", rate="90000000", **exchange)
    proposal = f"/v1/money_proposals/{made.json()['id']}"
    assert operate(operator, path, "k", rate="90000000", **exchange).json()["id"] == made.json()["id"]
    refused(operate(operator, path, "k", rate="90000001", **exchange), 422, "key_reused")
    refused(operator.http.post(f"{proposal}/approve"), 403, "four_eyes_required")
    refused(merchant.http.post(f"{proposal}/approve"), 403, "forbidden")
    stated = operator.http.post(
        f"/v1/{path}", json=exchange | {"rate": "1"}, headers={"Idempotency-Key": "v", "If-Match": '"1"'}
    )
    refused(stated, 422, "invalid_command")
    listed = other.http.get("/v1/money_proposals", params={"state": "proposed"}).json()["data"]
    assert made.json()["id"] in [one["id"] for one in listed]
    rejected = other.http.post(f"{proposal}/reject", json={"note": "what rate is this?"}).json()
    assert (rejected["state"], rejected["event_id"], balance(merchant)["available"]) == ("rejected", None, 1)
    refused(other.http.post(f"{proposal}/approve"), 409, "state_conflict")
    refused(other.http.get("/v1/money_proposals/mp_none"), 404, "not_found")


def test_an_owner_carries_out_what_is_approved_and_nothing_else(
    public: PublicSystem, merchant: Merchant, operator: Merchant
) -> None:
    """Whoever has a key that may send it, but not the second person: refused for now, and the approval still counts."""
    fund(public, merchant, 100)
    payload = {"merchant_id": merchant.name, "amount": 100, "currency": "EUR", "reason": "r"}
    made = operate(operator, f"accounts/{merchant.name}/hold_reserve", amount=100, currency="EUR", reason="r").json()
    for key, scope in (
        (made["id"], "operator:approved"),
        ("forged", "operator:approved"),
        ("forged", "operator:ghost"),
    ):
        produce(public, "hold_reserve", scope, key, identity.account_id(merchant.name), payload)
    fund(public, merchant, 1)  # decided after them, by whoever owns both or later
    becomes(lambda: balance(merchant)["reserved"], 0, 20)
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        assert not connection.execute(
            "select 1 from idempotency where key = any (%s)", ([made["id"], "forged"],)
        ).fetchall()

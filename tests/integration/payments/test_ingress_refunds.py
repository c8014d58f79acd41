"""Refunds over HTTP: once for each identity, only of the caller's own payments, and never more than was received."""

from __future__ import annotations

import concurrent.futures
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.each import each
from tests.eventually import eventually
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers

REFUNDS = "/v1/refunds"
UNKNOWN_INTENT = "pi_" + "0" * 26
UNKNOWN_REFUND = "re_" + "0" * 26 + "_" + "0" * 10


def paid(merchant: Merchant, amount: int = 10_000, token: str = "tok_sim_approve") -> dict[str, Any]:
    intent = merchant.create(amount=amount, payment_method=token).json()["result"]
    assert merchant.act(intent["id"], "confirm").status_code == 200

    def succeeded() -> dict[str, Any] | None:
        path = f"/v1/payment_intents/{intent['id']}"
        found: dict[str, Any] = merchant.http.get(path, headers={"Prefer": "wait=10"}).json()
        return found if found["state"] == "succeeded" else None

    return eventually(succeeded, 60)


def refund(merchant: Merchant, payment_intent: object, key: str | None = None, **payload: Any) -> httpx.Response:
    body = {"idempotency_key": key or uuid.uuid4().hex, "payload": {"payment_intent": payment_intent} | payload}
    return merchant.http.post(REFUNDS, json=body)


def settled(merchant: Merchant, refund_id: str) -> dict[str, Any]:
    def decided() -> dict[str, Any] | None:
        found: dict[str, Any] = merchant.http.get(f"{REFUNDS}/{refund_id}", headers={"Prefer": "wait=10"}).json()
        return found if found["state"] != "pending" else None

    return eventually(decided, 60)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    return problem


def commands(merchant: Merchant, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    content = b"\n".join(json.dumps(line).encode() for line in lines)
    answer = merchant.http.post("/v1/commands", content=content, headers={"Content-Type": "application/x-ndjson"})
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_refund_is_one_in_both_forms_and_at_every_process(merchant: Merchant) -> None:
    """201, where it is, its own version; again the same bytes; what was answered is what is read."""
    intent = paid(merchant)
    first = refund(merchant, intent["id"], "k", amount=4_000, reason="duplicate", metadata={"order": "Ä-1"})
    assert first.status_code == 201, first.text
    made = first.json()["result"]
    assert made["id"].startswith("re_")
    assert (made["object"], made["payment_intent"], made["merchant_id"]) == ("refund", intent["id"], merchant.name)
    assert (made["amount"], made["currency"], made["reason"]) == (4_000, "USD", "duplicate")
    assert (made["state"], made["failure_reason"], made["version"]) == ("pending", None, 1)
    assert (first.headers["etag"], first.headers["location"]) == ('"1"', f"{REFUNDS}/{made['id']}")
    assert "idempotency-replayed" not in first.headers
    assert first.json()["event"]["aggregate_key"] == intent["id"]
    payload = {"payment_intent": intent["id"], "amount": 4_000, "reason": "duplicate", "metadata": {"order": "Ä-1"}}
    for _ in range(4):
        headers = {"Idempotency-Key": "k", "Connection": "close"}
        again = merchant.http.post(REFUNDS, json=payload, headers=headers)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert (again.headers["etag"], again.headers["location"]) == (first.headers["etag"], first.headers["location"])
    refused(refund(merchant, intent["id"], "k", amount=4_001), 422, "key_reused")
    done = settled(merchant, made["id"])
    assert (done["state"], done["metadata"]) == ("succeeded", {"order": "Ä-1"})
    read = merchant.http.get(f"{REFUNDS}/{made['id']}")
    assert read.json() == done
    assert read.headers["etag"] == f'"{done["version"]}"'
    assert merchant.http.get(read.url.path, headers={"If-None-Match": read.headers["etag"]}).status_code == 304
    after = merchant.http.get(f"/v1/payment_intents/{intent['id']}").json()
    assert (after["state"], after["amount_refunded"], after["amount_disputed"]) == ("succeeded", 4_000, 0)


def test_refunds_are_capped_and_say_what_is_left(merchant: Merchant) -> None:
    """Also in a race: of many that would each take the rest, one does. A refusal is as final as a success."""
    intent = paid(merchant, 10_000)
    assert refund(merchant, intent["id"], amount=4_000).status_code == 201
    over = refund(merchant, intent["id"], "over", amount=6_001)
    assert refused(over, 422, "amount_exceeds_refundable")["refundable"] == 6_000
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        race = list(pool.map(lambda _: refund(merchant, intent["id"], amount=6_000), range(12)))
    assert sorted(answer.status_code for answer in race) == [201] + [422] * 11
    again = refund(merchant, intent["id"], "over", amount=6_001)
    assert (again.content, again.headers["idempotency-replayed"]) == (over.content, "true")
    assert refused(refund(merchant, intent["id"]), 422, "amount_exceeds_refundable")["refundable"] == 0


def test_without_an_amount_all_that_is_left_is_refunded(merchant: Merchant) -> None:
    intent = paid(merchant, 700)
    assert refund(merchant, intent["id"], amount=1).status_code == 201
    rest = refund(merchant, intent["id"])
    assert rest.json()["result"]["amount"] == 699
    assert settled(merchant, rest.json()["result"]["id"])["state"] == "succeeded"


def test_what_was_not_paid_is_not_refunded(merchant: Merchant) -> None:
    intent = merchant.create().json()["result"]
    problem = refused(refund(merchant, intent["id"], amount=1), 409, "state_conflict")
    assert problem["current_state"] == "requires_confirmation"


def test_a_wait_ends_when_the_refund_is_not_pending_any_more(public: PublicSystem, merchant: Merchant) -> None:
    intent = paid(merchant)
    with public.frozen("processor_worker"):
        made = refund(merchant, intent["id"], amount=5).json()["result"]
        brief = merchant.http.get(f"{REFUNDS}/{made['id']}", headers={"Prefer": "wait=1"})
        assert (brief.json()["state"], brief.headers["preference-applied"]) == ("pending", "wait=1")
        assert brief.elapsed.total_seconds() >= 1
    polled = merchant.http.get(f"{REFUNDS}/{made['id']}", headers={"Prefer": "wait=30"})
    assert polled.json()["state"] == "succeeded"
    assert polled.elapsed.total_seconds() < 25


def test_others_have_no_refunds_of_mine(merchant: Merchant, stranger: Merchant) -> None:
    """A stranger's refund, read, list, filter and cancel: byte for byte as if nothing were there."""
    intent = paid(merchant)
    made = refund(merchant, intent["id"], amount=5).json()["result"]
    foreign = refund(stranger, intent["id"], amount=1)
    missing = refund(stranger, UNKNOWN_INTENT, amount=1)
    assert refused(foreign, 404, "not_found") == refused(missing, 404, "not_found")
    read = stranger.http.get(f"{REFUNDS}/{made['id']}")
    assert read.content == stranger.http.get(f"{REFUNDS}/{UNKNOWN_REFUND}").content
    refused(read, 404, "not_found")
    for params in ({}, {"payment_intent": intent["id"]}):
        assert stranger.http.get(REFUNDS, params=params).json()["data"] == []
    for refund_id in (made["id"], UNKNOWN_REFUND):
        body = {"idempotency_key": uuid.uuid4().hex, "payload": {}}
        refused(stranger.http.post(f"{REFUNDS}/{refund_id}/cancel", json=body), 404, "not_found")
    assert stranger.http.get("/v1/events").json()["data"] == []
    after = merchant.http.get(f"/v1/payment_intents/{intent['id']}").json()
    assert after["amount_received"] == 10_000


@each("odd", ["%00", "re_%F0%9F%92%A9", "..%2F..", "x" * 65, "'; drop table x--", "re-1", "%20", "__"])
def test_what_can_be_no_id_is_not_found(merchant: Merchant, odd: str) -> None:
    body = {"idempotency_key": uuid.uuid4().hex, "payload": {}}
    refused(merchant.http.get(f"{REFUNDS}/{odd}"), 404, "not_found")
    refused(merchant.http.post(f"{REFUNDS}/{odd}/cancel", json=body), 404, "not_found")
    refused(merchant.http.get(f"/v1/disputes/{odd}"), 404, "not_found")


@pytest.mark.parametrize("other", ["re_", "_x", "dp_{intent}_abcdefghij", "re_{intent}_", "{id}", "x" * 64])
def test_what_is_no_refund_cannot_be_canceled(merchant: Merchant, other: str) -> None:
    """Also an id that leads to a payment of one's own, and that payment's id itself."""
    intent = merchant.create().json()["result"]["id"]
    path = f"{REFUNDS}/{other.format(intent=intent.removeprefix('pi_'), id=intent)}"
    refused(merchant.http.post(f"{path}/cancel", json={"idempotency_key": uuid.uuid4().hex}), 404, "not_found")
    refused(merchant.http.get(path), 404, "not_found")


def test_a_cancel_names_one_refund(merchant: Merchant) -> None:
    """What is checked is what is worked on; a refund under way cannot be called back, and says so each time."""
    intent = paid(merchant)
    mine = [refund(merchant, intent["id"], amount=n).json()["result"]["id"] for n in (5, 6)]
    path = f"{REFUNDS}/{mine[0]}/cancel"
    for payload in ({"refund": mine[1]}, {"refund": UNKNOWN_REFUND}, {"refund": None}, {"refund": 5}, {"refund": ""}):
        body = {"idempotency_key": uuid.uuid4().hex, "payload": payload}
        refused(merchant.http.post(path, json=body), 400, "malformed_request")
    body = {"idempotency_key": "c", "payload": {"reason": "x"}}
    refused(merchant.http.post(path, json=body), 422, "invalid_command")
    equal = {"idempotency_key": "c", "payload": {"refund": mine[0]}}
    first = merchant.http.post(path, json=equal)
    refused(first, 409, "state_conflict")
    again = merchant.http.post(path, headers={"Idempotency-Key": "c"})
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    other = {"operation": f"POST {REFUNDS}/{mine[0]}/cancel", "idempotency_key": "o", "payload": {"refund": mine[1]}}
    assert commands(merchant, other)[0]["problem"]["code"] == "malformed_request"


def test_a_cancel_expects_the_version_of_the_refund(merchant: Merchant) -> None:
    """The ETag that a reader was given is the one that If-Match takes, whatever else happened to the payment."""
    intent = paid(merchant)
    made = refund(merchant, intent["id"], amount=5).json()["result"]
    done = settled(merchant, made["id"])
    assert done["version"] != merchant.http.get(f"/v1/payment_intents/{intent['id']}").json()["version"]
    etag = merchant.http.get(f"{REFUNDS}/{made['id']}").headers["etag"]
    path = f"{REFUNDS}/{made['id']}/cancel"
    seen = merchant.http.post(path, headers={"Idempotency-Key": "a", "If-Match": etag})
    problem = refused(seen, 409, "state_conflict")
    assert (problem["current_state"], problem["current_version"]) == ("succeeded", done["version"])
    old = merchant.http.post(path, headers={"Idempotency-Key": "b", "If-Match": f'"{made["version"]}"'})
    assert refused(old, 409, "version_conflict")["current_version"] == done["version"]
    another = f"{REFUNDS}/{made['id'][:-2]}{'yy' if made['id'].endswith('xx') else 'xx'}/cancel"
    missing = merchant.http.post(another, headers={"Idempotency-Key": "c", "If-Match": '"99"'})
    refused(missing, 404, "not_found")


def test_refunds_in_a_list_of_commands(merchant: Merchant, stranger: Merchant) -> None:
    """Each line for itself, in order, and the same identity over both doors."""
    intent = paid(merchant)["id"]
    line = {"operation": f"POST {REFUNDS}", "idempotency_key": "a"}
    lines = [
        line | {"payload": {"payment_intent": intent, "amount": 9_000}},
        line | {"payload": {"payment_intent": intent, "amount": 9_000}},
        line | {"idempotency_key": "b", "payload": {"payment_intent": intent, "amount": 1_001}},
        line | {"idempotency_key": "c", "payload": {"payment_intent": UNKNOWN_INTENT}},
        line | {"idempotency_key": "d", "payload": {"payment_intent": 5}},
        line | {"idempotency_key": "e", "aggregate_key": UNKNOWN_INTENT, "payload": {"payment_intent": intent}},
        {"operation": f"POST {REFUNDS}/{UNKNOWN_REFUND}/cancel", "idempotency_key": "f", "payload": {}},
        {"operation": f"POST {REFUNDS}/re-1/cancel", "idempotency_key": "g", "payload": {}},
        {"operation": f"POST {REFUNDS}/__/cancel", "idempotency_key": "h", "payload": {}},
    ]
    found = commands(merchant, *lines)
    assert [a["status"] for a in found] == [201, 201, 422, 404, 422, 400, 404, 400, 404]
    assert (found[1]["result"], found[1]["replayed"]) == (found[0]["result"], True)
    assert found[2]["problem"]["refundable"] == 1_000
    assert refund(merchant, intent, "a", amount=9_000).json()["result"] == found[0]["result"]
    assert commands(stranger, lines[0])[0]["status"] == 404


@pytest.fixture
def unknown(public: PublicSystem) -> Iterator[Merchant]:
    """A merchant of whom nothing may be known after its test."""
    caller = public.merchant()
    yield caller
    caller.http.close()
    for table, column in (("refund", "merchant_id"), ("idempotency", "merchant_id"), ("outbox", "scope")):
        assert public.rows(f"select 1 from {table} where {column} = %s", caller.name) == [], table


@each(
    ("field", "value"),
    [
        *(("amount", bad) for bad in (0, -1, 10.5, 1.0, "10", True, [1], 2**53, 2**63, 10**30)),
        *(
            ("payment_intent", bad)
            for bad in (5, None, True, [], {}, "", "pi 1", "pi\u0000", "p" * 65, "p" * 5_000, "пи", "___")
        ),
        *(("reason", bad) for bad in ("abandoned", "", 5, [])),
        *(
            ("metadata", bad)
            for bad in ([], {"a": 1}, {"a": "x\u0000y"}, {"k" * 100: "v"}, {f"k{n}": "" for n in range(60)})
        ),
        ("currency", "USD"),
        ("intent", UNKNOWN_INTENT),
        ("refund", UNKNOWN_REFUND),
    ],
)
def test_wrong_values_are_refused_before_anything(unknown: Merchant, field: str, value: object) -> None:
    payload = {"payment_intent": UNKNOWN_INTENT, "amount": 5} | {field: value}
    answer = unknown.http.post(REFUNDS, json={"idempotency_key": "k", "payload": payload})
    assert [e["field"] for e in refused(answer, 422, "invalid_command")["errors"]] == [f"payload.{field}"]


def test_what_is_no_refund_call_is_refused_before_anything(unknown: Merchant) -> None:
    good = {"payment_intent": UNKNOWN_INTENT, "amount": 5}
    for body in (
        {"idempotency_key": "k", "payload": good, "extra": 1},
        {"idempotency_key": "k", "payload": good | {"merchant_id": "m_other"}},
        {"idempotency_key": "k", "aggregate_key": "pi_other", "payload": good},
        {"idempotency_key": "k", "operation": "POST /v1/payment_intents", "payload": good},
        [],
    ):
        refused(unknown.http.post(REFUNDS, json=body), 400, "malformed_request")
    for body in ({"payload": good}, good, {}):
        refused(unknown.http.post(REFUNDS, json=body), 400, "idempotency_key_required")
    twice = b'{"idempotency_key": "k", "payload": {"payment_intent": "pi_1", "payment_intent": "pi_2"}}'
    answer = unknown.http.post(REFUNDS, content=twice, headers={"Content-Type": "application/json"})
    refused(answer, 400, "malformed_request")
    missing = unknown.http.post(REFUNDS, json={"idempotency_key": "k", "payload": {"amount": 5}})
    assert refused(missing, 422, "invalid_command")["errors"][0]["field"] == "payload.payment_intent"
    for amount in ("1e3", "10.0", "-0.0"):
        text = f'{{"idempotency_key": "k", "payload": {{"payment_intent": "pi_1", "amount": {amount}}}}}'
        answer = unknown.http.post(REFUNDS, content=text.encode(), headers={"Content-Type": "application/json"})
        refused(answer, 422, "invalid_command")


def test_scopes_are_required(public: PublicSystem) -> None:
    reader, writer = public.merchant(scopes=("payments:read",)), public.merchant(scopes=("payments:write",))
    with reader.http, writer.http:
        cancel = f"{REFUNDS}/{UNKNOWN_REFUND}/cancel"
        for answer in (
            refund(reader, UNKNOWN_INTENT),
            reader.http.post(cancel, json={"idempotency_key": "k"}),
            *(
                writer.http.get(path)
                for path in (REFUNDS, f"{REFUNDS}/{UNKNOWN_REFUND}", "/v1/disputes", "/v1/balance")
            ),
        ):
            refused(answer, 403, "forbidden")
        for path in (
            REFUNDS,
            f"{REFUNDS}/{UNKNOWN_REFUND}",
            "/v1/disputes",
            "/v1/disputes/dp_1",
            "/v1/balance",
            "/v1/cases",
        ):
            refused(reader.http.get(path, headers={"Authorization": ""}), 401, "unauthenticated")


def test_pages_of_refunds_are_newest_first_and_bound_to_their_filter(merchant: Merchant, stranger: Merchant) -> None:
    """Each once, in order; a cursor is good for its caller, its list and its filter."""
    one, two = paid(merchant)["id"], paid(merchant)["id"]
    made = [refund(merchant, intent, amount=1 + n).json()["result"]["id"] for n in range(6) for intent in (one, two)]
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 5}
    while True:
        page = merchant.http.get(REFUNDS, params=params).json()
        seen += [item["id"] for item in page["data"]]
        if not page["has_more"]:
            break
        params["cursor"] = page["next_cursor"]
    assert seen == made[::-1]
    of_one = merchant.http.get(REFUNDS, params={"payment_intent": one, "limit": 2}).json()
    assert [item["id"] for item in of_one["data"]] == [made[10], made[8]]
    cursor = of_one["next_cursor"]
    rest = merchant.http.get(REFUNDS, params={"payment_intent": one, "cursor": cursor}).json()
    assert ([item["id"] for item in rest["data"]], rest["next_cursor"]) == (made[6::-2], None)
    assert merchant.http.get(REFUNDS, params={"payment_intent": UNKNOWN_INTENT}).json()["data"] == []
    whole = merchant.http.get(REFUNDS, params={"limit": 2}).json()["next_cursor"]
    for caller, path, query in (
        (stranger, REFUNDS, {"payment_intent": one, "cursor": cursor}),
        (merchant, REFUNDS, {"payment_intent": two, "cursor": cursor}),
        (merchant, REFUNDS, {"cursor": cursor}),
        (merchant, REFUNDS, {"payment_intent": one, "cursor": whole}),
        (merchant, "/v1/disputes", {"cursor": whole}),
        (merchant, "/v1/disputes", {"payment_intent": one, "cursor": cursor}),
        (merchant, "/v1/payment_intents", {"cursor": whole}),
        (merchant, REFUNDS, {"cursor": whole[:-1]}),
        (merchant, REFUNDS, {"cursor": "AAAA"}),
        (merchant, REFUNDS, {"cursor": "x" * 5_000}),
    ):
        refused(caller.http.get(path, params=query), 400, "malformed_request")
    for query in ({"limit": "0"}, {"limit": "101"}, {"payment_intent": ""}, {"payment_intent": "a:b"}):
        refused(merchant.http.get(REFUNDS, params=query), 422, "invalid_command")
    refused(merchant.http.get(f"{REFUNDS}?payment_intent={one}&payment_intent={two}"), 400, "malformed_request")


def test_events_show_the_refund_as_it_is_read(merchant: Merchant) -> None:
    """In the list and in the stream; an event of the payment alone shows none."""
    intent = paid(merchant)
    made = refund(merchant, intent["id"], amount=5).json()
    done = settled(merchant, made["result"]["id"])
    events = merchant.http.get("/v1/events?limit=500").json()["data"]
    told = [e for e in events if e["body"].get("refund")]
    assert told[0]["event_id"] == made["event"]["event_id"]
    assert (told[0]["operation"], told[0]["body"]["refund"]) == ("create_refund", made["result"])
    assert (told[-1]["body"]["refund"], told[-1]["body"]["processor_attempt"]["kind"]) == (done, "refund")
    assert told[-1]["body"]["payment_intent"]["amount_refunded"] == 5
    assert all(e["body"]["payment_intent"]["id"] == e["aggregate_key"] == intent["id"] for e in events)
    assert [e["version"] for e in events] == list(range(1, len(events) + 1))
    assert not any(e["body"].get("refund") or e["body"].get("dispute") for e in events if "intent" in e["operation"])
    streamed: list[dict[str, Any]] = []
    with merchant.http.stream("GET", "/v1/events/stream?cursor=0") as stream:
        for row in stream.iter_lines():
            if row.startswith("data:"):
                streamed.append(json.loads(row[5:]))
                if len(streamed) == len(events):
                    break
    assert streamed == events


def test_an_accepted_refund_is_found_by_its_request(merchant: Merchant) -> None:
    intent, request_id = paid(merchant), f"r-{uuid.uuid4().hex}"
    body = {"idempotency_key": "k", "request_id": request_id, "payload": {"payment_intent": intent["id"], "amount": 5}}
    answer = merchant.http.post(REFUNDS, json=body, headers={"Prefer": "respond-async"})
    asked = f"/v1/operations/{request_id}"
    # whose result is there before the door has answered gets it at once
    assert answer.status_code == 201 or (answer.status_code, answer.headers["location"]) == (202, asked)

    def committed() -> dict[str, Any] | None:
        operation: dict[str, Any] = merchant.fresh(asked).json()
        return operation if operation["status"] == "committed" else None

    result = eventually(committed, 20)["result"]
    assert (result["object"], result["amount"]) == ("refund", 5)
    assert merchant.http.get(f"{REFUNDS}/{result['id']}").json()["payment_intent"] == intent["id"]

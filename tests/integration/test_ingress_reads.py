"""What a caller reads: its own objects only, in stable pages, as they are now, and events without gap or duplicate."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.eventually import eventually, patient
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def _make(merchant: Merchant, count: int) -> list[str]:
    lines = [{"operation": "POST /v1/payment_intents"} | merchant.envelope(amount=n + 1) for n in range(count)]
    content = "\n".join(map(json.dumps, lines))
    answer = merchant.http.post("/v1/commands", content=content, headers={"Content-Type": "application/x-ndjson"})
    return [json.loads(line)["result"]["id"] for line in answer.text.splitlines()]


def _pages(merchant: Merchant, path: str, limit: int, asked: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    params: dict[str, Any] = {"limit": limit} | (asked or {})
    while True:
        page = merchant.http.get(path, params=params).json()
        yield page
        if not page["has_more"]:
            return
        params["cursor"] = page["next_cursor"]


def test_pages_show_each_intent_once_also_while_others_are_made(merchant: Merchant) -> None:
    """Rule: ordered collections use cursors. What is made meanwhile is newer than every page to come."""
    made = _make(merchant, 40)
    seen: list[str] = []
    for page in _pages(merchant, "/v1/payment_intents", 7):
        seen += [intent["id"] for intent in page["data"]]
        _make(merchant, 2)
    assert len(seen) == len(set(seen))
    assert set(made) == set(seen)
    everything = [i for page in _pages(merchant, "/v1/payment_intents", 100) for i in page["data"]]
    order = [(i["created_at"], i["id"]) for i in everything]
    assert order == sorted(order, reverse=True)


def test_a_payment_is_found_by_the_merchants_own_reference(merchant: Merchant, stranger: Merchant) -> None:
    """Created with it, given it later, carried through events; another's and another reference are not in the list."""
    named = 'Auftrag Nr. 7: "Ä" & more'
    made = [merchant.create(reference=named).json()["result"]["id"] for _ in range(3)]
    later = merchant.create().json()["result"]
    assert later["reference"] is None
    change = {"idempotency_key": "named-later", "payload": {"reference": named}}
    updated = merchant.http.post(f"/v1/payment_intents/{later['id']}", json=change)
    assert (updated.status_code, updated.json()["result"]["reference"]) == (200, named)
    merchant.create(reference="another")
    stranger.create(reference=named)
    listed = merchant.http.get("/v1/payment_intents", params={"reference": named}).json()["data"]
    assert [intent["id"] for intent in listed] == [later["id"], *reversed(made)]
    assert {intent["reference"] for intent in listed} == {named}
    first = merchant.http.get("/v1/payment_intents", params={"reference": named, "limit": 2}).json()
    rest = {"reference": named, "limit": 2, "cursor": first["next_cursor"]}
    second = merchant.http.get("/v1/payment_intents", params=rest).json()
    assert [i["id"] for i in (*first["data"], *second["data"])] == [i["id"] for i in listed]
    assert merchant.http.get("/v1/payment_intents", params=rest | {"reference": "another"}).status_code == 400
    events = merchant.http.get("/v1/events", params={"limit": 100}).json()["data"]
    told = [e["body"]["payment_intent"]["reference"] for e in events if e["aggregate_key"] == later["id"]]
    assert told == [None, named]
    for wrong in ("", "x" * 65, "4242 4242 4242 4242", "a\nb"):
        refused = merchant.http.get("/v1/payment_intents", params={"reference": wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_command"), wrong
        assert merchant.create(reference=wrong).status_code == 422


def test_a_list_of_a_time(merchant: Merchant) -> None:
    """From a time on and before one, over several pages; and with a reference, too."""
    made = [merchant.create(reference="r" if n % 2 else None).json()["result"] for n in range(7)]
    start, before = made[1]["created_at"], made[6]["created_at"]
    asked = {"created[gte]": start, "created[lt]": before, "limit": 2}
    found, page = [], {"has_more": True, "next_cursor": None}
    while page["has_more"]:
        place = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
        page = merchant.http.get("/v1/payment_intents", params=asked | place).json()
        found += [intent["id"] for intent in page["data"]]
        if page["has_more"]:
            for other in (asked | {"created[lt]": start}, asked | {"created[gte]": before}, {"limit": 2}):
                turned = other | {"cursor": page["next_cursor"]}
                assert merchant.http.get("/v1/payment_intents", params=turned).status_code == 400
    assert found == [intent["id"] for intent in reversed(made[1:6])]
    named = merchant.http.get("/v1/payment_intents", params=asked | {"reference": "r", "limit": 9}).json()["data"]
    assert [intent["id"] for intent in named] == [made[n]["id"] for n in (5, 3, 1)]
    for path in ("/v1/refunds", "/v1/disputes", "/v1/payouts", f"/v1/refunds?payment_intent={made[0]['id']}"):
        merged = dict(httpx.URL(f"http://x{path}").params) | asked
        assert merchant.http.get(httpx.URL(path).path, params=merged).json()["data"] == []
    wrong = merchant.http.get("/v1/payment_intents", params={"created[gte]": "yesterday"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_command")


def test_filters_go_together_and_a_cursor_is_bound_to_them(merchant: Merchant, stranger: Merchant) -> None:
    """State, amount, time, metadata and reference, each alone and all at once; another filter refuses the cursor."""
    kinds = [{"shop": "north", "order": str(n % 3)} if n % 2 else {"shop": "south"} for n in range(12)]
    made = [
        merchant.create(amount=100 + n, metadata=kind, reference="r").json()["result"] for n, kind in enumerate(kinds)
    ]
    stranger.create(amount=105, metadata={"shop": "north"}, reference="r")
    for n in (3, 5, 9):
        assert merchant.act(made[n]["id"], "cancel").status_code == 200
    whole = {"state": "canceled", "metadata[shop]": "north", "reference": "r", "created[gte]": made[0]["created_at"]}
    for asked, wanted in (
        ({"state": "canceled"}, [9, 5, 3]),
        ({"amount[gt]": 103, "amount[lte]": 106}, [6, 5, 4]),
        ({"amount": 104}, [4]),
        ({"amount": 104, "amount[gt]": 104}, []),
        ({"amount[gte]": 109, "amount[lt]": 111}, [10, 9]),
        ({"metadata[shop]": "north"}, [11, 9, 7, 5, 3, 1]),
        ({"metadata[shop]": "north", "metadata[order]": "1"}, [7, 1]),
        ({"metadata[order]": "north"}, []),
        ({"created[gt]": made[3]["created_at"], "created[lte]": made[6]["created_at"]}, [6, 5, 4]),
        (whole | {"amount[gte]": 104}, [9, 5]),
        ({"state": "canceled", "metadata[order]": "0"}, [9, 3]),
    ):
        found = [i["id"] for page in _pages(merchant, "/v1/payment_intents", 2, asked) for i in page["data"]]
        assert found == [made[n]["id"] for n in wanted], asked
    cursor = merchant.http.get("/v1/payment_intents", params=whole | {"limit": 1}).json()["next_cursor"]
    for name, value in (
        ("state", "processing"),
        ("metadata[shop]", "south"),
        ("metadata[order]", "0"),
        ("reference", "q"),
        ("created[gte]", made[1]["created_at"]),
        ("amount[lt]", "1"),
    ):
        other = whole | {name: value, "cursor": cursor}
        refused = merchant.http.get("/v1/payment_intents", params=other)
        assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request"), name
    changed = {"idempotency_key": "moved", "payload": {"metadata": {"shop": "west"}}}
    assert merchant.http.post(f"/v1/payment_intents/{made[11]['id']}", json=changed).status_code == 200
    west = merchant.http.get("/v1/payment_intents", params={"metadata[shop]": "west"}).json()["data"]
    north = merchant.http.get("/v1/payment_intents", params={"metadata[shop]": "north"}).json()["data"]
    assert ([i["id"] for i in west], len(north)) == ([made[11]["id"]], 5)
    for path in ("/v1/refunds", "/v1/payouts", "/v1/disputes"):
        state = {"/v1/disputes": "won"}.get(path, "failed")
        keyed = {} if path == "/v1/disputes" else {"metadata[shop]": "north"}
        for asked in ({"state": state, "amount[lt]": 5}, {"amount[gte]": 1} | keyed):
            assert merchant.http.get(path, params=asked).json()["data"] == [], path
    for wrong in (
        {"state": "lost"},
        {"amount[gt]": "-1"},
        {"amount[lt]": "1.5"},
        {"amount[gte]": str(2**53)},
        {"metadata[]": "a"},
        {"metadata[a]": "4242 4242 4242 4242"},
        {f"metadata[{n}]": "a" for n in range(6)},
        {"created[gt]": "today"},
    ):
        refused = merchant.http.get("/v1/payment_intents", params=wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_command"), wrong


def test_a_query_value_that_nobody_reads_is_refused(merchant: Merchant) -> None:
    """A list that its reader believes to be filtered would be read as if it were; a card number is not repeated."""
    intent = merchant.create().json()["result"]["id"]
    for path in (
        "/v1/payment_intents?status=succeeded",
        "/v1/payment_intents?metadata=5",
        "/v1/payment_intents?metadata[a",
        "/v1/disputes?metadata[a]=b",
        f"/v1/payment_intents/{intent}?foo",
        "/v1/refunds?limit=5&Limit=5",
        "/v1/balance?currency=USD",
        "/v1/events?from=2026-01-01T00:00:00Z",
    ):
        refused = merchant.http.get(path)
        assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request"), path
    assert "created[gte]" in merchant.http.get("/v1/payment_intents?status=succeeded").json()["detail"]
    assert "4242" not in merchant.http.get("/v1/payment_intents?4242424242424242=1").text
    posted = merchant.http.post("/v1/payment_intents?dry=true", json=merchant.envelope())
    assert (posted.status_code, posted.json()["code"]) == (400, "malformed_request")
    assert len(merchant.http.get("/v1/payment_intents").json()["data"]) == 1


def test_a_cursor_is_bound_to_its_caller_and_list(merchant: Merchant, stranger: Merchant) -> None:
    _make(merchant, 5)
    cursor = merchant.http.get("/v1/payment_intents?limit=2").json()["next_cursor"]
    events = merchant.http.get("/v1/events?limit=2").json()["next_cursor"]
    for caller, path in (
        (stranger, f"/v1/payment_intents?cursor={cursor}"),
        (merchant, f"/v1/events?cursor={cursor}"),
        (merchant, f"/v1/payment_intents?cursor={events}"),
        (stranger, f"/v1/events?cursor={events}"),
        (stranger, f"/v1/events/stream?cursor={events}"),
        (merchant, f"/v1/payment_intents?cursor={cursor[:-1]}"),
        (merchant, "/v1/payment_intents?cursor=AAAA"),
        (merchant, f"/v1/payment_intents?cursor={cursor}&cursor={cursor}"),
    ):
        answer = caller.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request"), path
    for limit in ("0", "-1", "101", "x", "1.5", "9" * 30, ""):
        answer = merchant.http.get("/v1/payment_intents", params={"limit": limit})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command"), limit


def test_another_callers_object_looks_like_none(merchant: Merchant, stranger: Merchant) -> None:
    intent = merchant.create().json()["result"]
    foreign = stranger.http.get(f"/v1/payment_intents/{intent['id']}")
    missing = stranger.http.get("/v1/payment_intents/pi_00000000000000000000000000")
    assert (foreign.status_code, foreign.content) == (404, missing.content)
    assert stranger.act(intent["id"], "confirm").status_code == 404
    assert stranger.http.get("/v1/payment_intents").json()["data"] == []
    assert stranger.http.get("/v1/events").json()["data"] == []
    for weird in ("%00", "pi_%F0%9F%92%A9", "..%2F..", "x" * 300, "'; drop table x--"):
        assert stranger.http.get(f"/v1/payment_intents/{weird}").status_code == 404, weird
        assert stranger.act(weird, "confirm").status_code == 404, weird


def test_a_resource_reads_as_its_result_said(merchant: Merchant) -> None:
    """After a write the caller reads its own result."""
    for metadata in ({}, {"order": "Ä-1", "note": 'a: "b"'}):
        made = merchant.create(metadata=metadata)
        read = merchant.http.get(made.headers["location"])
        assert read.json() == made.json()["result"]
        assert read.headers["etag"] == made.headers["etag"]
        unchanged = merchant.http.get(made.headers["location"], headers={"If-None-Match": read.headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_a_long_poll_answers_when_the_state_moves_on(public: PublicSystem, merchant: Merchant) -> None:
    """While the payment is processing the poll waits; it answers with what came, well before its own end."""
    intent = merchant.create().json()["result"]
    with public.frozen("processor_worker"):
        assert merchant.act(intent["id"], "confirm").json()["result"]["state"] == "processing"
        brief = merchant.http.get(f"/v1/payment_intents/{intent['id']}", headers={"Prefer": "wait=1"})
        assert (brief.json()["state"], brief.headers["preference-applied"]) == ("processing", "wait=1")
    polled = merchant.http.get(f"/v1/payment_intents/{intent['id']}", headers={"Prefer": "wait=30"})
    assert polled.json()["state"] == "succeeded"
    at_once = merchant.http.get(f"/v1/payment_intents/{intent['id']}", headers={"Prefer": "wait=30"})
    assert at_once.elapsed.total_seconds() < 20


def test_event_pages_resume_after_any_event(merchant: Merchant, stranger: Merchant) -> None:
    _make(stranger, 5)
    made = _make(merchant, 30)
    whole = [e for page in _pages(merchant, "/v1/events", 7) for e in page["data"]]
    assert sorted(e["aggregate_key"] for e in whole) == sorted(made)
    assert len({e["event_id"] for e in whole}) == 30
    end = list(_pages(merchant, "/v1/events", 500))[-1]["next_cursor"]
    assert merchant.http.get("/v1/events", params={"cursor": end}).json()["data"] == []
    later = _make(merchant, 1)
    page = merchant.http.get("/v1/events", params={"cursor": end}).json()
    assert [e["aggregate_key"] for e in page["data"]] == later
    event = page["data"][0]
    assert (event["event_type"], event["version"], event["operation"]) == (
        "payment_system_committed",
        1,
        "create_payment_intent",
    )
    assert event["body"]["payment_intent"] == merchant.http.get(f"/v1/payment_intents/{later[0]}").json()
    assert event["body"]["processor_attempt"] is None
    assert event["occurred_at"].endswith("Z")


def _read_stream(
    merchant: Merchant, count: int, last_id: str | None, **params: str
) -> tuple[list[dict[str, Any]], str]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    events: list[dict[str, Any]] = []
    cursor = last_id or ""
    with merchant.http.stream("GET", "/v1/events/stream", headers=headers, params=params) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for row in stream.iter_lines():
            if row.startswith("id:"):
                cursor = row[3:].strip()
            elif row.startswith("data:"):
                events.append(json.loads(row[5:]))
                if len(events) == count:
                    break
    return events, cursor


def test_a_stream_resumes_after_every_single_event(merchant: Merchant) -> None:
    """Cut after each event, at any process: no gap, no duplicate, and the order of each aggregate holds."""
    ids = _make(merchant, 6)
    for intent_id in ids[:3]:
        merchant.act(intent_id, "cancel")
    cursor, events = None, []
    for n in range(9):
        found, cursor = _read_stream(merchant, 1, cursor, **({} if n else {"cursor": "0"}))
        events += found
    whole, _ = _read_stream(merchant, 9, None, cursor="0")
    assert [e["event_id"] for e in events] == [e["event_id"] for e in whole]
    versions = [(e["aggregate_key"], e["version"]) for e in events]
    assert sorted(versions) == sorted([(i, 1) for i in ids] + [(i, 2) for i in ids[:3]])
    for intent_id in ids[:3]:
        assert [v for i, v in versions if i == intent_id] == [1, 2]


def test_a_stream_hears_what_commits_while_it_is_open(merchant: Merchant, stranger: Merchant) -> None:
    """Without a cursor it begins now; events of others wake nobody and are never shown."""
    _make(merchant, 3)
    heard: list[dict[str, Any]] = []
    opened = threading.Event()

    def listen() -> None:
        with merchant.http.stream("GET", "/v1/events/stream") as stream:
            for row in stream.iter_lines():
                opened.set()  # the first line, "retry", comes when listening has begun
                if row.startswith("data:"):
                    heard.append(json.loads(row[5:]))
                    if len(heard) == 5:
                        return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert opened.wait(patient(20))
    _make(stranger, 3)
    later = [merchant.create().json()["result"]["id"] for _ in range(5)]
    thread.join(patient(30))
    assert [e["aggregate_key"] for e in heard] == later


def test_a_stream_ends_with_its_token(public: PublicSystem, merchant: Merchant) -> None:
    """A bearer that expires must not listen for ever; it lasts until the stream is open."""
    token = public.token(merchant.name, ttl_s=int(patient(4)))
    start = time.monotonic()
    with merchant.http.stream("GET", "/v1/events/stream", headers={"Authorization": f"Bearer {token}"}) as stream:
        assert stream.status_code == 200
        assert all(not row.startswith("data:") for row in stream.iter_lines())
    assert time.monotonic() - start < patient(35)


def test_health_is_open_and_keys_are_public(merchant: Merchant) -> None:
    anonymous = {"Authorization": ""}
    assert merchant.http.get("/healthz", headers=anonymous).json() == {"status": "alive"}
    assert eventually(lambda: merchant.http.get("/readyz", headers=anonymous).status_code == 200, 20)
    keys = merchant.http.get("/.well-known/jwks.json", headers=anonymous).json()["keys"]
    assert keys
    assert all("d" not in key for key in keys)


def test_recovery_checkpoints_are_for_operators(public: PublicSystem, merchant: Merchant) -> None:
    operator = public.merchant("m_ops", ("operator",))
    with operator.http:
        page = operator.http.get("/v1/recovery_checkpoints?limit=1").json()
    answer = merchant.http.get("/v1/recovery_checkpoints")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert set(page) == {"data", "has_more", "next_cursor"}


def test_a_token_that_may_read_no_events_hears_which_scope_it_lacks(public: PublicSystem) -> None:
    with public.merchant(scopes=("limits:read",)).http as http:
        answers = [http.get(path) for path in ("/v1/events", "/v1/events/stream")]
    for refused in answers:
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "payments:read" in refused.json()["detail"], refused.text

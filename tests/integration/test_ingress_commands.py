"""One command has one answer: first, again, in both forms, at any process, late, in a list, or after a deadline."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress.http.store import _read_queries
from tests.eventually import becomes, eventually, patient
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    import httpx

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers
READS = _read_queries(("ingress",))


def test_a_replay_is_the_same_bytes_at_every_process(merchant: Merchant) -> None:
    first = merchant.create("k", metadata={"order": "Ä-1"})
    assert first.status_code == 201
    assert "idempotency-replayed" not in first.headers
    for _ in range(6):  # a connection each: both processes answer
        again = merchant.create("k", {"Connection": "close"}, metadata={"order": "Ä-1"})
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert (again.headers["etag"], again.headers["location"]) == (first.headers["etag"], first.headers["location"])


def test_a_retry_hears_its_stored_result_while_no_owner_works(public: PublicSystem, merchant: Merchant) -> None:
    """The owner tells a retry its result; while it is silent the database does, also where nobody waits for an owner."""
    first = merchant.create("k")
    assert first.status_code == 201
    with public.frozen("owner"):
        # while results of others come, the database is asked later
        soon = {"X-Deadline-Ms": str(round(1_000 * patient(1)))}
        for headers in ({}, {}, {"Prefer": "respond-async"}, soon):
            again = merchant.create("k", headers | {"Connection": "close"})
            assert (again.status_code, again.content) == (201, first.content)
            assert again.headers["idempotency-replayed"] == "true"
        lines = _lines(merchant, {"operation": "POST /v1/payment_intents"} | merchant.envelope("k"))
        assert json.loads(lines.text) == {"status": 201, "replayed": True} | first.json()


def test_a_refusal_is_replayed_too(merchant: Merchant) -> None:
    """A retry cannot succeed later by surprise."""
    intent = merchant.create().json()["result"]
    first = merchant.act(intent["id"], "capture", "c")
    assert (first.status_code, first.json()["code"]) == (409, "state_conflict")
    assert merchant.act(intent["id"], "confirm").status_code == 200
    again = merchant.act(intent["id"], "capture", "c")
    assert (again.status_code, again.content) == (409, first.content)
    assert again.headers["idempotency-replayed"] == "true"


def test_expected_version_is_no_part_of_the_identity(merchant: Merchant) -> None:
    intent = merchant.create().json()["result"]
    first = merchant.act(intent["id"], "confirm", "c", expected_version=1)
    assert first.status_code == 200
    assert merchant.act(intent["id"], "confirm", "c", expected_version=9).content == first.content


def test_a_key_belongs_to_one_request(merchant: Merchant, stranger: Merchant) -> None:
    intent = merchant.create("k").json()["result"]
    for other in (merchant.create("k", amount=1), merchant.act(intent["id"], "cancel", "k")):
        assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert stranger.create("k", amount=1).status_code == 201


def test_a_trace_reaches_the_event(merchant: Merchant) -> None:
    trace = uuid.uuid4().hex
    answer = merchant.create(headers={"traceparent": f"00-{trace}-{uuid.uuid4().hex[:16]}-01"})
    assert answer.json()["event"]["trace_id"] == trace


def test_scopes_are_required(public: PublicSystem) -> None:
    reader, writer = public.merchant(scopes=("payments:read",)), public.merchant(scopes=("payments:write",))
    with reader.http, writer.http:
        for answer in (
            reader.create(),
            reader.http.post("/v1/commands", content="x", headers={"Content-Type": "application/x-ndjson"}),
            writer.http.get("/v1/payment_intents"),
            writer.http.get("/v1/events"),
            writer.http.get("/v1/events/stream"),
            writer.http.get("/v1/operations/x"),
            reader.http.get("/v1/recovery_checkpoints"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.url
        assert writer.create().status_code == 201


def test_an_accepted_command_is_pending_for_its_caller_at_every_process(
    public: PublicSystem, merchant: Merchant, stranger: Merchant
) -> None:
    """202 after Kafka's acknowledgement; the operation is pending, then decided; for others it does not exist."""
    asked, late = f"r-{uuid.uuid4().hex}", f"r-{uuid.uuid4().hex}"
    with public.frozen("owner"):
        answer = merchant.http.post(
            "/v1/payment_intents",
            json=merchant.envelope("a") | {"request_id": asked},
            headers={"Prefer": "respond-async"},
        )
        assert (answer.status_code, answer.json()) == (202, {"request_id": asked, "status": "pending"})
        assert answer.headers["location"] == f"/v1/operations/{asked}"
        assert answer.headers["preference-applied"] == "respond-async"
        waited = merchant.create("b", {"Prefer": "wait=1", "X-Request-Id": late})
        assert (waited.status_code, waited.headers["preference-applied"]) == (202, "wait=1")
        for request_id in (asked, late):
            found = [merchant.fresh(f"/v1/operations/{request_id}").json() for _ in range(6)]
            assert found == [{"request_id": request_id, "status": "pending"}] * 6
            assert stranger.fresh(f"/v1/operations/{request_id}").status_code == 404
        other, again = _accepted_again(merchant, amount=7), _accepted_again(merchant)
    for request_id in (asked, late, again):
        done = eventually(lambda r=request_id: _when(merchant.fresh(f"/v1/operations/{r}").json(), "committed"), 20)
        assert done["result"]["merchant_id"] == merchant.name
        assert done["event"]["aggregate_key"] == done["result"]["id"]
        assert stranger.fresh(f"/v1/operations/{request_id}").status_code == 404
    assert done == merchant.fresh(f"/v1/operations/{asked}").json() | {"request_id": again}
    reused = merchant.fresh(f"/v1/operations/{other}").json()
    assert (reused["status"], reused["problem"]["code"]) == ("refused", "key_reused")
    assert merchant.fresh("/v1/operations/never-asked").status_code == 404
    assert merchant.create("a").headers["idempotency-replayed"] == "true"


def _accepted_again(merchant: Merchant, **payload: Any) -> str:
    """The id under which a repetition of "a" was accepted; a process that has the first knows what differs at once."""

    def accepted() -> str | None:
        headers = {"Prefer": "respond-async", "Connection": "close"}
        answer = merchant.create("a", headers, **payload)
        return str(answer.json()["request_id"]) if answer.status_code == 202 else None

    return eventually(accepted, 20)


def _when(operation: dict[str, Any], status: str) -> dict[str, Any] | None:
    return operation if operation["status"] == status else None


def test_a_refused_operation_has_its_problem(merchant: Merchant) -> None:
    request_id = f"r-{uuid.uuid4().hex}"
    intent = merchant.create().json()["result"]
    merchant.act(intent["id"], "capture", request_id=request_id)
    operation = merchant.http.get(f"/v1/operations/{request_id}").json()
    assert (operation["status"], operation["problem"]["code"]) == ("refused", "state_conflict")


def test_a_command_past_its_deadline_is_not_started(public: PublicSystem, merchant: Merchant) -> None:
    """Nothing is done and nothing stored: the same identity may try again, and is a first answer then."""
    keys: list[str] = []

    def taken_too_late() -> bool:
        keys.append(uuid.uuid4().hex)
        with public.frozen("owner"):
            late = merchant.create(keys[-1], {"X-Deadline-Ms": "200"})
        assert late.status_code == 202, late.text  # 503 when Kafka had not taken it within the deadline: tried again
        return True

    eventually(taken_too_late)  # the owner did not say anything in time
    probe = merchant.create("probe")  # the owner works again
    assert probe.status_code == 201
    again = merchant.create(keys[-1])
    assert (again.status_code, "idempotency-replayed" in again.headers) == (201, False)


def test_a_deadline_that_an_owner_saw_pass_is_a_504(public: PublicSystem, merchant: Merchant) -> None:
    """The owner wakes just after the deadline, while the caller still listens: "not started", and nothing is stored."""
    keys: list[str] = []
    deadline_s = 0.6

    def asked_too_late() -> bool:
        keys.append(uuid.uuid4().hex)
        with ThreadPoolExecutor(1) as pool:
            with public.frozen("owner"):
                began = time.monotonic()
                late = pool.submit(merchant.create, keys[-1], {"X-Deadline-Ms": str(int(deadline_s * 1_000))})
                wakes_after_s = deadline_s + 0.05 * (len(keys) % 8)  # the deadline counts from when the ingress hears
                eventually(lambda: time.monotonic() - began > wakes_after_s, what="the deadline")
            answer = late.result()
        # 201 when the owner woke too early, 202 when the caller had stopped listening: tried again
        assert answer.status_code == 504, answer.text
        assert answer.json()["code"] == "deadline_exceeded"
        return True

    eventually(asked_too_late, 30)
    first = merchant.create(keys[-1])
    assert (first.status_code, "idempotency-replayed" in first.headers) == (201, False)


PASSED = (
    'select p.next_offset - p.offset_base > a."offset" from accepted_request a'
    " join partition_owner p using (topic, partition) where a.request_id = %s"
)


def test_a_command_that_breaks_its_owner_is_parked_and_said_so(public: PublicSystem, merchant: Merchant) -> None:
    """The caller hears 409 parked, so does everybody who touches that object, at once or later; others are served."""
    word = f"poison_{uuid.uuid4().hex}"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute(
            f"alter table payment_intent add constraint {word} check (metadata not like '%{word}%') not valid"
        )
        try:
            request_id = f"r-{uuid.uuid4().hex}"
            poisoned = merchant.create("p", {"X-Request-Id": request_id}, metadata={"order": word})
        finally:
            superuser.execute(f"alter table payment_intent drop constraint {word}")
    assert (poisoned.status_code, poisoned.json()["code"]) == (409, "parked"), poisoned.text
    operation = merchant.fresh(f"/v1/operations/{request_id}").json()
    assert (operation["status"], operation["problem"]["code"]) == ("parked", "parked")
    again = merchant.create("p", metadata={"order": word})
    assert (again.status_code, again.json()["code"]) == (409, "parked")
    assert merchant.create().status_code == 201
    later = f"r-{uuid.uuid4().hex}"
    accepted = merchant.create("p", {"X-Request-Id": later, "Prefer": "respond-async"}, metadata={"order": word})
    assert accepted.status_code == 202, accepted.text
    waits = [merchant.fresh(f"/v1/operations/{later}").json() for _ in range(6)]
    assert {(told["status"], told["problem"]["code"]) for told in waits} == {("parked", "parked")}
    # else it would be carried out when nothing is parked any more
    becomes(lambda: public.rows(PASSED, later), [(True,)])
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute(
            "select parked_decide(topic, partition, \"offset\", 'discarded', 'ada', 'n') from dead_letter"
            " where request_id = %s",
            (request_id,),
        )
    waits = [merchant.fresh(f"/v1/operations/{later}").json() for _ in range(6)]
    assert {(told["status"], told["problem"]["code"]) for told in waits} == {("refused", "parked")}
    assert merchant.create("p", metadata={"order": word}).status_code == 201
    assert merchant.fresh(f"/v1/operations/{later}").json()["status"] == "committed"


def test_a_command_is_known_by_its_place_after_the_topic_began_anew(public: PublicSystem, merchant: Merchant) -> None:
    """Kafka counts from 0 again, dead letters and answers lie further on: an old one's number is no place of a new one."""
    assert merchant.create("k").status_code == 201
    dsn = public.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn) as resumed:
        (topic, partition, place), *_ = resumed.execute(
            'select topic, partition, "offset" from idempotency where merchant_id = %s', (merchant.name,)
        ).fetchall()
        resumed.execute(
            "update partition_owner set offset_base = 1000 where topic = %s and partition = %s", (topic, partition)
        )
        letters = [(topic, partition, offset, "r", b"", "epoch") for offset in (place, place + 1_003)]
        resumed.cursor().executemany(
            'insert into dead_letter (topic, partition, "offset", reason, record, parked_at)'
            " values (%s, %s, %s, %s, %s, %s)",
            letters,
        )
        offsets = [place, place + 3]
        asked = {"ns": [0, 1], "topics": [topic] * 2, "partitions": [partition] * 2, "offsets": offsets}
        parked = resumed.execute(READS["parked_requests"], asked).fetchall()
        identity = {"ns": [0], "merchants": [merchant.name], "keys": ["k"]}
        ((*_, told, _event),) = resumed.execute(READS["stored_results"], identity).fetchall()
        resumed.rollback()
    assert (parked, told) == ([(1,)], place - 1_000)


def _lines(merchant: Merchant, *documents: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    content = b"\n".join(d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents)
    return merchant.http.post(
        "/v1/commands", content=content, headers={"Content-Type": "application/x-ndjson"} | (headers or {})
    )


def test_a_list_is_answered_in_order_and_each_line_for_itself(merchant: Merchant) -> None:
    create = "POST /v1/payment_intents"
    good = [{"operation": create} | merchant.envelope(f"k{n}", amount=100 + n) for n in range(30)]
    first = _lines(
        merchant,
        *good,
        good[3],
        good[4] | {"payload": good[5]["payload"]},
        {"operation": create} | merchant.envelope("bad", amount=-1),
        b"nonsense",
        b'{"operation": "POST /v1/payment_intents", "idempotency_key": "\xff"}',
        {"operation": "POST /v1/unknown", "idempotency_key": "u", "payload": {}},
        b" ",
        {"operation": create, "payload": {}},
        b'{"operation": "POST /v1/payment_intents", "idempotency_key": "big", "payload": {"x": "'
        + b"a" * 70_000
        + b'"}}',
    )
    found = [json.loads(line) for line in first.text.splitlines()]
    assert first.headers["content-type"].startswith("application/x-ndjson")
    assert [a["status"] for a in found] == [201] * 31 + [422, 422, 400, 400, 400, 400, 413]
    assert [a["result"]["amount"] for a in found[:31]] == [100 + n for n in range(30)] + [103]
    assert [a.get("replayed", False) for a in found[:31]] == [False] * 30 + [True]
    codes = [a["problem"]["code"] for a in found[31:]]
    assert codes[:2] == ["key_reused", "invalid_command"]
    assert codes[5] == "idempotency_key_required"
    again = [json.loads(line) for line in _lines(merchant, *good).text.splitlines()]
    assert all(a.pop("replayed") for a in again)
    assert again == found[:30]
    assert len(merchant.http.get("/v1/payment_intents?limit=100").json()["data"]) == 30


def test_lines_about_one_intent_are_carried_out_in_order(merchant: Merchant) -> None:
    """Same aggregate, same partition, same owner: the order of the list is the order of the effects."""
    made = json.loads(_lines(merchant, {"operation": "POST /v1/payment_intents"} | merchant.envelope("k")).text)
    intent_id = made["result"]["id"]
    found = [
        json.loads(line)
        for line in _lines(
            merchant,
            {"operation": f"POST /v1/payment_intents/{intent_id}/cancel", "idempotency_key": "a", "payload": {}},
            {"operation": f"POST /v1/payment_intents/{intent_id}/confirm", "idempotency_key": "b", "payload": {}},
        ).text.splitlines()
    ]
    assert [a["status"] for a in found] == [200, 409]
    assert found[1]["problem"]["current_state"] == "canceled"


def test_lists_are_bounded(merchant: Merchant) -> None:
    line = {"operation": "POST /v1/payment_intents"} | merchant.envelope("k")
    assert _lines(merchant, *[line] * 2_001).status_code == 413
    assert _lines(merchant, b"x" * (2 * 1024 * 1024 + 1)).status_code == 413
    assert _lines(merchant, b"\n\n").status_code == 400
    assert merchant.http.post("/v1/commands", json=line).status_code == 415


def test_an_asynchronous_list_is_accepted_line_by_line(merchant: Merchant) -> None:
    lines = [{"operation": "POST /v1/payment_intents"} | merchant.envelope(f"k{n}") for n in range(5)]
    found = [json.loads(t) for t in _lines(merchant, *lines, headers={"Prefer": "respond-async"}).text.splitlines()]
    assert [a["status"] for a in found] == [202] * 5
    for accepted in found:
        path = f"/v1/operations/{accepted['request_id']}"
        eventually(lambda p=path: _when(merchant.fresh(p).json(), "committed"), 20)

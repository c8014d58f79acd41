"""A service that lies in one folder is served as any: commands, reads, events, documents, checks; nothing else is changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.owner import fail_points
from ingress.identity.issuer import KeyFolder, issue_token
from schemas.topics import partition_for
from sinks.clickhouse.connection import ClickHouseConnection
from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.services.counter.domain import FULL
from tests.services.counter.service import SERVICE
from tests.services.counter_world import (
    SCOPES,
    Caller,
    Kind,
    events,
    in_clickhouse,
    millrace,
    process,
    sink,
    used,
    work,
)
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
STEPS = ("sink_after_plan", "sink_after_insert", "sink_after_mark")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("counter")
    modules = "tests.services.counter.service"
    with system_of_its_own(home, service_modules=modules, services=("ingress",), ingress_processes=1) as made:
        yield made


@pytest.fixture
def caller(system: PublicSystem) -> Iterator[Caller]:
    found = Caller(system)
    yield found
    found.http.close()


def test_a_command_is_carried_out_once_and_its_answer_is_repeated_byte_for_byte(caller: Caller) -> None:
    first = caller.post("/v1/counters", {"label": "apples"}, "same")
    again = caller.post("/v1/counters", {"label": "apples"}, "same")
    assert (first.status_code, first.content) == (201, again.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    counter = first.json()["result"]
    assert first.headers["Location"] == f"/v1/counters/{counter['id']}"
    assert first.json()["event"]["event_type"] == "counter_committed"
    other = caller.post("/v1/counters", {"label": "pears"}, "same")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


def test_a_write_is_conditional_on_the_version_that_it_names(caller: Caller) -> None:
    one = f"/v1/counters/{caller.counter()['id']}"
    assert caller.post(f"{one}/add", {"amount": 5}, **{"If-Match": '"1"'}).json()["result"]["value"] == 5
    late = caller.post(f"{one}/add", {"amount": 5}, **{"If-Match": '"1"'})
    assert (late.status_code, late.json()["code"], late.json()["current_version"]) == (409, "version_conflict", 2)
    read = caller.http.get(one)
    assert (read.json()["value"], read.headers["ETag"]) == (5, '"2"')


def test_a_reset_is_an_operation_like_the_others(caller: Caller) -> None:
    """Declared, numbered and decided: its route, documents, schema and refusals follow from that."""
    one = f"/v1/counters/{caller.counter()['id']}"
    caller.post(f"{one}/add", {"amount": 5})
    assert caller.post(f"{one}/reset", {}).json()["result"]["value"] == 0
    caller.post(f"{one}/close", {})
    assert caller.post(f"{one}/reset", {}).json()["code"] == "state_conflict"
    described = caller.http.get("/openapi.json").json()["paths"]["/v1/counters/{counter_id}/reset"]["post"]
    assert described["summary"] == "Set a counter back to zero"
    assert described["responses"]["409"]["description"] == "version_conflict or state_conflict or parked"


def test_many_at_once_are_each_counted_once(caller: Caller) -> None:
    one = f"/v1/counters/{caller.counter()['id']}/add"
    keys = [f"add{n % 20}" for n in range(60)]  # each three times
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: caller.post(one, {"amount": 1}, key), keys))
    assert {answer.status_code for answer in answers} == {200}
    assert caller.http.get(one.removesuffix("/add")).json()["value"] == 20


def test_lines_are_answered_in_order_and_a_bad_one_costs_no_other(caller: Caller) -> None:
    counter = caller.counter()["id"]
    lines = [
        {"operation": f"POST /v1/counters/{counter}/add", "idempotency_key": "l1", "payload": {"amount": 2}},
        {"operation": f"POST /v1/counters/{counter}/add", "idempotency_key": "l2", "payload": {"amount": "two"}},
        {"operation": "POST /v1/payment_intents", "idempotency_key": "l3", "payload": {"amount": 1, "currency": "USD"}},
        {"operation": f"POST /v1/counters/{counter}/close", "idempotency_key": "l4"},
    ]
    body = "\n".join(json.dumps(line) for line in lines)
    answer = caller.http.post("/v1/commands", content=body, headers={"Content-Type": "application/x-ndjson"})
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["status"] for line in found] == [200, 422, 403, 200]
    assert (found[3]["result"]["state"], found[3]["result"]["value"]) == ("closed", 2)


def test_another_s_counter_is_as_one_that_never_was(system: PublicSystem, caller: Caller) -> None:
    counter = caller.counter()["id"]
    stranger = Caller(system)
    try:
        for method in ("GET", "POST"):
            path = f"/v1/counters/%s{'/close' if method == 'POST' else ''}"
            seen = []
            for name in (counter, "ct_never"):
                answer = stranger.http.request(
                    method,
                    path % name,
                    headers={"Idempotency-Key": f"{method}{name}"},
                    json={} if method == "POST" else None,
                )
                seen.append((answer.status_code, answer.content))
            assert seen[0] == seen[1]
            assert seen[0][0] == 404
    finally:
        stranger.http.close()


def test_lists_are_the_caller_s_own_and_turn_pages_without_gap(caller: Caller) -> None:
    made = [caller.counter()["id"] for _ in range(5)]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = caller.http.get("/v1/counters", params=query).json()
        found += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert found == made[::-1]


def test_events_of_all_types_come_in_order_in_pages_and_as_a_stream(caller: Caller) -> None:
    one = f"/v1/counters/{caller.counter()['id']}"
    caller.post(f"{one}/add", {"amount": 3})
    caller.post(f"{one}/close", {})
    wanted = [("counter_committed", 0), ("counter_committed", 3), ("counter_committed", 3), ("counter_closed", 3)]
    page = caller.http.get("/v1/events", params={"limit": 10}).json()["data"]
    assert [(event["event_type"], event["body"]["value"]) for event in page] == wanted
    named = caller.http.get("/v1/events", params={"service": "counter"}).json()["data"]
    assert named == page
    assert caller.http.get("/v1/events", params={"service": "payments"}).status_code == 403
    names = []
    with caller.http.stream("GET", "/v1/events/stream", params={"cursor": "0"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            if len(names) == len(wanted):
                break
    assert names == [name for name, _ in wanted]


@pytest.mark.parametrize("kind", ["tenant", "user"])
def test_a_tenant_and_a_user_are_callers_as_any_and_no_merchants(system: PublicSystem, kind: Kind) -> None:
    """A name is another's where the kind is another, and what is merchants' alone is refused."""
    caller = Caller(system, (*SCOPES, "payments:read"), kind)
    try:
        counter = caller.counter()["id"]
        assert caller.http.get(f"/v1/counters/{counter}").json()["owner"] == f"{kind}:{caller.name}"
        assert caller.http.get("/v1/events", params={"service": "counter"}).json()["data"]
        refused = caller.http.get("/v1/payment_intents")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    finally:
        caller.http.close()


def test_what_became_of_a_command_is_read_with_the_scope_of_its_service(system: PublicSystem, caller: Caller) -> None:
    """The same caller's token for another service learns nothing of it."""
    request_id = f"rq-{caller.name}"
    caller.post("/v1/counters", {"label": "apples"}, **{"X-Request-Id": request_id})
    found = caller.http.get(f"/v1/operations/{request_id}")
    assert (found.status_code, found.json()["status"]) == (200, "committed")
    keys = KeyFolder(system.settings.the_home().path / "keys")
    for scope in ("payments:read", "limits:read"):
        elsewhere = issue_token(keys, caller.name, (scope,))
        unread = caller.http.get(f"/v1/operations/{request_id}", headers={"Authorization": f"Bearer {elsewhere}"})
        assert (unread.status_code, unread.json()["code"]) == (404, "not_found")


def test_scopes_and_bad_values_are_refused_with_what_to_do(system: PublicSystem, caller: Caller) -> None:
    reader = Caller(system, ("counters:read",))
    assert reader.post("/v1/counters", {"label": "x"}).json()["code"] == "forbidden"
    reader.http.close()
    wrong = caller.post("/v1/counters", {"label": 5, "other": 1})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_command")
    assert {one["field"] for one in wrong.json()["errors"]} == {"payload.label", "payload.other"}
    assert caller.post("/v1/counters", {"label": "x", "tenant": "t"}).status_code == 400


def test_the_document_names_its_routes_and_schemas_are_served(caller: Caller) -> None:
    document = caller.http.get("/openapi.json").json()
    assert {"/v1/counters", "/v1/counters/{counter_id}/add", "/v1/counters/{counter_id}/close"} <= document[
        "paths"
    ].keys()
    assert document["paths"]["/v1/counters"]["post"]["tags"] == ["counter"]
    assert json.loads(caller.http.get("/schemas/ids/9002").json()["schema"])["name"] == "AddToCounter"


@pytest.mark.parametrize("point", matrix(fail_points.NAMES[:6], "after_commit_before_publish".__eq__))
def test_an_owner_killed_at_any_point_loses_nothing_and_doubles_nothing(
    system: PublicSystem, caller: Caller, point: str
) -> None:
    counters = [caller.counter()["id"] for _ in range(6)]
    while len({partition_for(one, SERVICE.partitions) for one in counters}) < SERVICE.partitions:
        counters[-1] = caller.counter()["id"]  # whichever partition the doomed one gets, one is in it
    ones = [f"/v1/counters/{one}/add" for one in counters]
    sent = 0
    with process(system, "counter_owner", point) as doomed:
        while doomed.poll() is None:  # until it has a partition, and dies of a command in it
            assert until_answered(caller, ones[sent % 6], f"kill{sent}").status_code == 200
            sent += 1
        assert doomed.returncode == -signal.SIGKILL
    for n, one in enumerate(ones):
        assert caller.http.get(one.removesuffix("/add")).json()["value"] == len(range(n, sent, 6))


def test_a_worker_that_is_killed_reacts_to_every_event_once(system: PublicSystem, caller: Caller) -> None:
    """Both processes of it die: one after it sent its commands, one at any time. What they closed is closed once."""
    full: list[str] = []

    def fill() -> None:
        full.append(f"/v1/counters/{caller.counter()['id']}")
        assert until_answered(caller, f"{full[-1]}/add", f"fill{len(full)}", FULL).status_code == 200

    with process(system, "counter_closer", "worker_after_send") as doomed:
        while doomed.poll() is None:
            fill()
        assert doomed.returncode == -signal.SIGKILL
    for pid in system.pids("counter_closer"):
        os.kill(pid, signal.SIGKILL)
    fill()

    def closed() -> list[tuple[str, int]]:
        answers = [caller.http.get(one).json() for one in full]
        return [(answer["state"], answer["version"]) for answer in answers]

    becomes(closed, [("closed", 3)] * len(full), 60, what="every full counter closed, once")
    query = "select status, count(*) from idempotency where merchant_id = 'worker:counter_closer' group by 1"
    assert system.rows(query) == [("committed", len(full))]


def until_answered(caller: Caller, path: str, key: str, amount: int = 1) -> httpx.Response:
    """As a careful caller: the same identity, until it is decided."""

    def ask() -> httpx.Response | None:
        answer = caller.post(path, {"amount": amount}, key)
        return answer if answer.status_code not in (202, 503, 504) else None

    return eventually(ask, 60)


def test_its_owner_writes_its_own_tables_and_no_others(system: PublicSystem) -> None:
    superuser = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("set role millrace_counter_owner")
        for statement in ("update payment_intent set version = 1", "insert into policy (policy_id) values ('x')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_its_events_are_in_kafka_in_the_order_of_their_seq(system: PublicSystem, caller: Caller) -> None:
    caller.counter()
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        rows = connection.execute(
            "select partition, count(*), min(seq), max(seq) from outbox where topic = 'events.counter.v1' group by 1"
        ).fetchall()
        assert rows
        assert all((first, last) == (1, count) for _, count, first, last in rows)

        def published() -> bool:
            left = connection.execute(
                "select count(*) from partition_owner p where topic = 'commands.counter.v1' and published_seq <"
                " (select coalesce(max(seq), 0) from outbox o where o.topic = 'events.counter.v1' and o.partition = p.partition)"
            ).fetchone()
            return left == (0,)

        eventually(published, 30)


def test_its_invariant_is_one_of_the_check_s_and_finds_a_planted_violation(
    system: PublicSystem, caller: Caller
) -> None:
    counter = caller.counter()["id"]
    program = "from reconciliation.check.invariant import invariants as all_\nfor one in all_(): print(one.id)"
    environment = os.environ | {"MILLRACE_SERVICE_MODULES": "tests.services.counter.service"}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "counter_sums" in found.stdout.split()
    sql = (resources.files("tests.services.counter") / "invariants" / "counter_sums.sql").read_text()
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        assert connection.execute(sql).fetchall() == []
        connection.execute("update counter set version = 7 where id = %s", (counter,))
        assert [row[0] for row in connection.execute(sql).fetchall()] == [counter]
        connection.rollback()


@pytest.mark.proof
@pytest.mark.parametrize("step", STEPS)
def test_a_sink_killed_at_any_step_loses_and_doubles_nothing(system: PublicSystem, caller: Caller, step: str) -> None:
    """Then everything agrees: a check finds no gap, a replay is equal, and its shadow may become the live table."""
    work(caller)
    with sink(system, step) as doomed:
        assert doomed.wait(timeout=patient(40)) == -signal.SIGKILL
    work(caller)
    with sink(system):
        eventually(lambda: in_clickhouse(system) == (events(system),) * 2, 40, what="every event in ClickHouse once")
        swapped = millrace(system, "replay", "clickhouse", "--service", "counter", "--swap")
        assert (swapped["differences"], swapped["swapped"], swapped["events"]) == (0, True, events(system))
        work(caller)
        eventually(lambda: in_clickhouse(system) == (events(system),) * 2, 40, what="the sink goes on after a swap")
        ids = ("--only", "counter_stores", "--only", "counter_sums", "--only", "published", "--only", "outbox")
        checked = millrace(system, "check", *ids)
        assert checked["gaps"] == 0, checked
    assert millrace(system, "replay", "counter", "--source", "outbox")["differences"] == 0
    # what was metered is what was committed: three times five counters, to which 0 to 4 was added
    assert used(system, caller.name) == {"changes": 3 * (5 + 5 + 2 * 2), "added": 3 * 10}


def test_a_tampered_row_is_shown_by_the_check_and_by_the_replay(system: PublicSystem, caller: Caller) -> None:
    work(caller)
    with sink(system):  # it stays: killed between its rows and its position, it would be a second gap
        eventually(lambda: in_clickhouse(system) == (events(system),) * 2, 40, what="every event in ClickHouse once")
        client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
        client.command("insert into counters select * from counters limit 1")
        client.close()
        found = millrace(system, "check", "--only", "counter_stores")
        assert found["gaps"] == 1, found
    assert millrace(system, "replay", "clickhouse.counters", "--service", "counter")["differences"] == 1
    assert millrace(system, "replay", "clickhouse.counters", "--service", "counter", "--swap")["swapped"]
    assert millrace(system, "check", "--only", "counter_stores")["gaps"] == 0

"""What the isolation monitor makes of an answer: proof, a difference that proves nothing, or no probe at all."""

from __future__ import annotations

import http.server
import itertools
import re
import socketserver
import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from compose import limits
from compose.isolation import canaries
from compose.isolation.api_connection import ApiConnection
from compose.isolation.canaries import Canary, Doors
from compose.isolation.counter_probes import CounterProbes
from compose.isolation.monitor import Monitor
from compose.isolation.object_probes import ROUTES, object_probes
from compose.isolation.object_probes import SQL as OTHERS
from compose.isolation.route_probes import _ghost, route_probes
from compose.isolation.store_probes import AnalyticsProbe
from compose.isolation.stream_probes import misplaced
from ingress.identity.issuer import KeyFolder
from schemas.errors import Unavailable
from schemas.tenancy.service import SERVICE
from schemas.tenancy.usage_topic import USAGE
from tests.eventually import becomes, patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVENTS = SERVICE.events_topic
ONE = Canary("tn_a1", "rs_a1", "marker of a", "usage of a")
TWO = Canary("tn_b2", "rs_b2", "marker of b", "usage of b")


@pytest.fixture
def issuer(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    return folder


@pytest.fixture
def doors(issuer: KeyFolder) -> Iterator[Doors]:
    made = Doors("http://nowhere", issuer, b"key")
    yield made
    made.close()


def asked(doors: Doors, monkeypatch: pytest.MonkeyPatch, **odd: httpx.Response) -> dict[str, tuple[str | None, bool]]:
    """What probes find where all is as it should be, but for what is asked of the other's resource or tenant."""

    def answer(method: str, path: str, **more: Any) -> httpx.Response:
        params = more.get("params", {})
        if "tenant_id" in params or "X-Tenant-Id" in more.get("headers", {}):
            return httpx.Response(400, json={})
        if "cursor" in params:
            return odd.get("cursor", httpx.Response(400, json={}))
        if path == "/v1/usage" and "usage" in odd:
            return odd["usage"]
        if path.endswith((TWO.resource_id, TWO.tenant_id)) and method in odd:
            return odd[method]
        if "everybody" in odd and path.startswith(("/v1/resources/", "/v1/tenants/")):
            return odd["everybody"]
        is_list = not path.startswith(("/v1/resources/", "/v1/tenants/"))
        return httpx.Response(200 if is_list else 404, json={"next_cursor": "Abc"} if is_list else {})

    monkeypatch.setattr(doors._http, "request", answer)
    return {found.probe: (found.evidence, found.is_leak) for found in route_probes(doors, ONE, TWO) if found.evidence}


def test_what_is_apart_is_no_evidence(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(doors, monkeypatch) == {}


@pytest.mark.parametrize("answer", [httpx.Response(200, json={}), httpx.Response(404, text="... marker of b ...")])
def test_what_is_reached_is_proof(doors: Doors, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response) -> None:
    assert [is_leak for _, is_leak in asked(doors, monkeypatch, PUT=answer).values()] == [True]


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        ({"usage": httpx.Response(200, json={"data": [{"subject": "usage of b"}]})}, {"list /v1/usage": True}),
        ({"usage": httpx.Response(403, json={})}, {"list /v1/usage": False}),
        (
            {"cursor": httpx.Response(200, json={"data": []})},
            {"cursor another tenant's": False, "cursor altered": False},
        ),
        ({"cursor": httpx.Response(200, text="rs_b2")}, {"cursor another tenant's": True, "cursor altered": True}),
    ],
)
def test_usage_of_another_and_a_cursor_that_is_taken_are_evidence(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, odd: dict[str, httpx.Response], found: dict[str, bool]
) -> None:
    assert {probe: is_leak for probe, (_, is_leak) in asked(doors, monkeypatch, **odd).items()} == found


def test_an_object_of_each_kind_is_asked_for_by_one_whose_it_is_not(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [(kind, "tn_c", f"{kind}_1") for kind in ROUTES]
    assert re.findall(r"\(select '(\w+)'", OTHERS["objects_of_others"]) == [*ROUTES]
    doors.remembered(("objects", ONE.tenant_id), lambda: there)
    theirs = [(kind, TWO.tenant_id, f"{kind}_2") for kind in ROUTES]
    doors.remembered(("own objects", TWO.tenant_id), lambda: theirs)
    paths: list[str] = []

    def found(reached: str = "") -> list[str]:
        def answer(_: str, path: str, **__: Any) -> httpx.Response:
            paths.append(path)
            return httpx.Response(200 if path == reached else 404, json={})

        monkeypatch.setattr(doors._http, "request", answer)
        return [one.probe for one in object_probes(doors, "", ONE, TWO) if one.is_leak]

    assert found() == []
    real = [path for path in dict.fromkeys(paths) if re.search("_[12](/|$)", path)]
    below = [route for routes in ROUTES.values() for route in routes if "{tenant}" in route]
    assert len(real) == 2 * (10 + len(below)), real
    for owner in (ONE.tenant_id, "tn_c", TWO.tenant_id):  # below its own tenant too, and the other's own
        assert len([path for path in real if f"/{owner}/" in path]) == (2 if owner == ONE.tenant_id else 1) * len(below)
    for path in real:
        assert len(found(path)) == 1, path


class Turns(Monitor):
    """Asks nobody, and says who would have asked whom."""

    def __init__(self) -> None:
        self._rounds, self._egress = 0, SimpleNamespace(probes=lambda _: [])  # type: ignore[assignment]

    def _probed(self, _: Doors, asks: Canary, other: Canary) -> Iterator[Any]:
        yield asks, other


def test_each_canary_asks_in_turn_and_again_where_its_round_was_not_done() -> None:
    monitor, asked = Turns(), []
    connection: Any = SimpleNamespace(execute=lambda *_: None)
    canaries: Any = SimpleNamespace(
        tenant=lambda name: name, canary={"a": ONE, "b": TWO}.__getitem__, remembered=lambda *_: None
    )
    for is_done in (True, False, True, True):
        asked += list(monitor._asked(connection, canaries))
        monitor._rounds += is_done
    assert asked == [(ONE, TWO), (TWO, ONE), (TWO, ONE), (ONE, TWO)]  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    "answer", [httpx.Response(403, json={}), httpx.Response(404, headers={"X-More": "1"}, json={})]
)
def test_a_difference_is_evidence_and_no_proof(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response
) -> None:
    assert [is_leak for _, is_leak in asked(doors, monkeypatch, PUT=answer).values()] == [False]


def test_what_is_told_of_nobodys_is_remembered_and_hides_no_difference(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later round asks for the other's alone, and once more for nobody's before it tells of a difference."""
    assert asked(doors, monkeypatch) == {}
    paths: list[str] = []
    answer: Any = doors._http.request

    def noted(method: str, path: str, **more: Any) -> Any:
        paths.append(path)
        return answer(method, path, **more)

    monkeypatch.setattr(doors._http, "request", noted)
    assert not [found for found in route_probes(doors, ONE, TWO) if found.evidence]
    assert not [path for path in paths if _ghost(TWO.resource_id) in path or _ghost(TWO.tenant_id) in path]
    odd = httpx.Response(404, headers={"X-More": "1"}, json={})
    assert [is_leak for _, is_leak in asked(doors, monkeypatch, PUT=odd).values()] == [False]
    assert asked(doors, monkeypatch, everybody=odd) == {}  # a release that says more, to everybody


def test_canaries_are_made_again_after_a_round_that_failed(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def answer(method: str, path: str, **_: Any) -> httpx.Response:
        if method != "GET":
            made.append(path)
        if path == "/v1/usage/events":
            return httpx.Response(202, json={"accepted": 1})
        if method != "GET":
            return httpx.Response(201, json={"result": {"tenant_id": "tn_a", "resource_id": "rs_1"}})
        return httpx.Response(200, json={"state": "active"})

    monkeypatch.setattr(doors._http, "request", answer)
    assert len({doors.canary(doors.tenant("a")) for _ in range(3)}) == 1
    entitled = "/v1/tenants/tn_a/entitlements"
    assert made == ["/v1/tenants", "/v1/usage/events", entitled, "/v1/resources"]  # its usage once a day
    doors.forget()
    doors.canary(doors.tenant("a"))
    assert made[4:] == ["/v1/tenants", entitled, "/v1/resources"]
    later = time.monotonic() + limits.ISOLATION_METERED_AGAIN_S
    monkeypatch.setattr(canaries.time, "monotonic", lambda: later)
    doors.canary(doors.tenant("a"))
    assert made[7:] == [
        "/v1/tenants",
        "/v1/usage/events",
        entitled,
        "/v1/resources",
    ]  # for who looks at records of Kafka


def test_there_is_a_next_canary_where_somebody_ended_one(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the monitor would look at nothing for ever: an end cannot be taken back."""
    states = {"tn_1": "deleted", "tn_2": "active", "tn_3": "active"}
    made: dict[str, str] = {}

    def answer(method: str, path: str, **more: Any) -> httpx.Response:
        if method == "POST":
            tenant_id = made.setdefault(more["json"]["idempotency_key"], f"tn_{len(made) + 1}")
            return httpx.Response(201, json={"result": {"tenant_id": tenant_id}})
        if path.endswith("/keys"):
            is_shredded = "tn_2" in path
            return httpx.Response(200, json={"data": [{"state": "destroyed" if is_shredded else "active"}]})
        return httpx.Response(200, json={"state": states[path.rpartition("/")[2]]})

    monkeypatch.setattr(doors._http, "request", answer)
    assert [doors.tenant("a") for _ in range(2)] == ["tn_3", "tn_3"]
    assert list(made) == ["canary-a", "canary-a-1", "canary-a-2"]
    states["tn_3"] = "suspended"
    with pytest.raises(Unavailable, match="suspended"):  # somebody may resume it
        doors.tenant("a")


def test_an_answer_that_was_lost_and_comes_again_is_no_difference(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round before ended after its first write of this hour: that one is replayed, the one of nobody's is new."""
    again = httpx.Response(404, headers={"Idempotency-Replayed": "true"}, json={})
    assert asked(doors, monkeypatch, PUT=again, DELETE=again) == {}


@pytest.mark.parametrize("status", [202, 401, 408, 429, 500, 503, 504])
def test_who_is_slow_or_away_was_not_probed(doors: Doors, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A write that is accepted and not decided yet is neither refused nor done: a busy owner is no leak."""
    with pytest.raises(Unavailable):
        asked(doors, monkeypatch, PUT=httpx.Response(status, json={}))


class _Served(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, and cuts the connection without a word, as an ingress does with an idle one."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{self.path} {self.headers['Content-Type']} {body.decode()}".encode()
        self.send_response(409)
        self.send_header("Content-Length", str(len(said)))
        self.send_header("X-More", "1")
        self.end_headers()
        self.wfile.write(said)
        self.close_connection = True


def test_a_probe_is_sent_whole_and_an_idle_connection_that_was_cut_is_no_outage() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(ApiConnection(f"http://127.0.0.1:{server.server_port}", patient(5))) as api:
            for n in (1, 2):
                answer = api.request("PUT", "/a", headers={}, json={"n": n}, params={"tenant_id": "tn b"})
                assert (answer.status_code, answer.is_success, answer.headers["x-more"]) == (409, False, "1")
                assert answer.text == f'/a?tenant_id=tn+b application/json {{"n": {n}}}'
                becomes(api._is_cut, True)
                with pytest.raises(Unavailable, match="does not answer in JSON"):
                    answer.json()
        server.shutdown()
    with pytest.raises(Unavailable, match="does not answer"):
        api.request("GET", "/", headers={})


def test_nobody_can_write_down_what_a_canary_holds(issuer: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a stranger who has it logged, in a path say, would close the platform to everybody."""
    markers = set()
    for key in (b"one home", b"another"):
        doors = Doors("http://nowhere", issuer, key)
        made, taken = httpx.Response(201, json={"result": {"resource_id": "rs_1"}}), httpx.Response(202)
        monkeypatch.setattr(
            doors._http,
            "request",
            lambda _, path, made=made, taken=taken, **__: taken if path.startswith("/v1/usage") else made,
        )
        canaries = [doors.canary(tenant_id) for tenant_id in ("tn_a", "tn_b")]
        markers |= {text for canary in canaries for text in (canary.marker, canary.subject)}
        doors.close()
    assert len(markers) == 8


@pytest.mark.parametrize(("rows", "found"), [((0, 0), []), ((1, 0), [False]), ((1, 1), [True]), ((0, 1), [True])])
def test_usage_proves_something_where_the_canary_has_some(rows: tuple[int, int], found: list[bool]) -> None:
    """Its own is looked for, too: of a store in which nobody's is, nothing is told."""
    asked: dict[str, str] = {}

    class Client:
        def query(self, _: str, parameters: dict[str, str]) -> Client:
            asked.update(parameters)
            self.result_rows = [rows]
            return self

    probe = AnalyticsProbe("http://nowhere")
    probe._client = Client()  # type: ignore[assignment] # as much of one as is used
    assert [one.is_leak for one in probe.ask(ONE, TWO)] == found
    assert asked == {"tenant": "tn_a1", "own": "usage of a", "others": "usage of b"}


class _Anyone(socketserver.StreamRequestHandler):
    """Valkey as it answers whoever comes, or who has said a password alone."""

    needs_password = False

    def handle(self) -> None:
        for line in self.rfile:
            if line.startswith(b"*"):  # a command begins
                self.wfile.write(b"-NOAUTH Authentication required.\r\n" if self.needs_password else b"+OK\r\n")


@pytest.mark.parametrize(("needs_password", "evidence"), [(True, None), (False, "it answers who has none")])
def test_a_store_that_asks_for_no_password_is_evidence_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, needs_password: bool, evidence: str | None
) -> None:
    monkeypatch.setattr(_Anyone, "needs_password", needs_password)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Anyone) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        (found,) = CounterProbes(f"redis://:secret@{place}/3")._without_password()
        assert (found.evidence, found.is_leak) == (evidence, False)
        assert list(CounterProbes(f"redis://{place}/3")._without_password()) == []  # nobody set one
        server.shutdown()


@pytest.mark.parametrize(
    ("topic", "key", "value", "is_leak"),
    [
        (USAGE, b"tn_a1:0f", b'{"subject": "usage of a"}', None),
        (USAGE, b"tn_c3:0f", b'{"subject": "anything"}', None),
        (EVENTS, b"tn_b2", b"tn_b2 rs_b2", None),
        (USAGE, b"tn_b2:0f", b'{"subject": "usage of a"}', True),
        (USAGE, b"tn_c3:0f", b'{"subject": "usage of a"}', False),  # whoever read it in ClickHouse can send that
        (USAGE, b"tn_c3:0f", b'{"subject": "rs_a1"}', False),
        (USAGE, b"tn_a10:0f", b'{"subject": "usage of a"}', False),  # a name that only begins alike
        (EVENTS, b"tn_c3", b"... rs_a1 ...", True),
        (EVENTS, b"tn_a1", b"... rs_b2 ...", True),
        (EVENTS, b"", b"... rs_b2 ...", True),
        (EVENTS, b"tn_a1", b'{"marker": "marker of a"}', True),  # its own, and not sealed
        (USAGE, b"\xffmarker of b", b"", True),
    ],
)
def test_a_record_under_anothers_key_is_evidence_and_proof_where_nobody_else_can_have_sent_it(
    topic: str, key: bytes, value: bytes, is_leak: bool | None
) -> None:
    found = misplaced(topic, key, value, (ONE, TWO))
    assert (None if found is None else found.is_leak) is is_leak
    assert found is None or (topic in (found.evidence or "") and "marker" not in (found.evidence or ""))


def test_a_token_that_is_refused_is_not_sent_again(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a clock that was ahead would be refused for as long as that was: half an hour of rounds without an end."""
    numbers, sent = itertools.count(), list[str]()

    def answer(_method: str, _path: str, *, headers: dict[str, str]) -> httpx.Response:
        sent.append(headers["Authorization"])
        return httpx.Response(401 if len(sent) == 1 else 200, json={})

    monkeypatch.setattr(canaries, "issue_token", lambda *_, **__: f"token {next(numbers)}")
    monkeypatch.setattr(doors._http, "request", answer)
    with pytest.raises(Unavailable):
        doors.ask("tn_a1", "GET", "/v1/usage")
    for _ in range(2):
        doors.ask("tn_a1", "GET", "/v1/usage")
    assert sent == ["Bearer token 0", "Bearer token 1", "Bearer token 1"]

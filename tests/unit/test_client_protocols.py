"""The client keeps the identity of a command over everything that can happen to it. No socket is touched here."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from ingress import limits
from ingress.client import declared, errors, protocols, sse, sync_twin, wire
from ingress.client.messages import CommandLine, Committed, Lost, Pause, Reply, Send
from schemas.payments.records import PaymentIntent

if TYPE_CHECKING:
    from ingress.client.messages import Heard
    from ingress.client.protocols import Protocol

JITTER = random.Random(7)
DONE = {"result": {"id": "pi_1", "state": "processing"}, "event": {"event_id": "evt_1"}}


def reply(status: int, document: object = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, json.dumps(document if document is not None else {}).encode())


def problem(status: int, code: str, **more: Any) -> Reply:
    return reply(status, {"status": status, "code": code, "detail": "d", **more})


class Script:
    """Plays a protocol against answers; keeps what was sent and how long was paused."""

    def __init__(self, *heard: Heard) -> None:
        self._heard = list(heard)
        self.sent: list[Send] = []
        self.paused: list[float] = []

    def run(self, protocol: Protocol[Any]) -> Any:
        answer: Heard = None
        while True:
            try:
                step = protocol.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Pause):
                self.paused.append(step.seconds)
                answer = None
            else:
                self.sent.append(step)
                answer = self._heard.pop(0)


def confirm(**changes: Any) -> Protocol[Committed]:
    arguments: dict[str, Any] = {
        "idempotency_key": None,
        "expected_version": None,
        "wait_s": 10,
        "deadline_ms": None,
        "jitter": JITTER,
    }
    return protocols.command("/v1/payment_intents/pi_1/confirm", {}, **arguments | changes)


def test_every_try_is_the_same_command() -> None:
    """Lost, overloaded, throttled: the same bytes again, and the stored answer in the end."""
    script = Script(
        Lost("reset"),
        problem(503, "overloaded"),
        problem(429, "quota_exceeded"),
        problem(504, "deadline_exceeded"),
        reply(200, DONE, idempotency_replayed="true"),
    )
    committed = script.run(confirm())
    assert committed == Committed(DONE["result"], DONE["event"], replayed=True)
    assert len({send.content for send in script.sent}) == 1
    assert len(json.loads(script.sent[0].content or b"")["idempotency_key"]) == 32
    assert len(script.paused) == 4


def test_the_callers_identity_and_expectations_travel() -> None:
    script = Script(reply(200, DONE))
    script.run(confirm(idempotency_key="mine", expected_version=4, deadline_ms=700))
    body = json.loads(script.sent[0].content or b"")
    assert (body["idempotency_key"], body["expected_version"]) == ("mine", 4)
    assert script.sent[0].headers["X-Deadline-Ms"] == "700"
    assert script.sent[0].headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("key", ["clé", "a b", "a\n"])
def test_an_identity_that_no_field_can_carry_travels_in_the_body_alone(key: str) -> None:
    script = Script(reply(200, DONE))
    script.run(confirm(idempotency_key=key))
    assert json.loads(script.sent[0].content or b"")["idempotency_key"] == key
    assert "Idempotency-Key" not in script.sent[0].headers


def test_pauses_grow_are_bounded_and_obey_the_service() -> None:
    script = Script(*[Lost("x")] * limits.CLIENT_TRIES_MAX)
    with pytest.raises(errors.Undecided) as caught:
        script.run(confirm(idempotency_key="mine"))
    assert caught.value.idempotency_key == "mine"
    assert max(script.paused) <= limits.CLIENT_BACKOFF_MAX_MS / 1_000
    assert script.paused[4] > script.paused[0]
    asked = protocols.backoff(0, reply(503, None, retry_after="7"), JITTER)
    assert asked.seconds == 7


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "state_conflict", errors.Conflict),
        (409, "version_conflict", errors.Conflict),
        (422, "key_reused", errors.IdentityReused),
        (422, "invalid_command", errors.InvalidCall),
        (404, "not_found", errors.ObjectNotFound),
        (401, "unauthenticated", errors.CallRefused),
    ],
)
def test_a_refusal_is_not_retried(status: int, code: str, kind: type[errors.CallRefused]) -> None:
    script = Script(problem(status, code))
    with pytest.raises(kind) as caught:
        script.run(confirm())
    assert (caught.value.status, caught.value.code, len(script.sent)) == (status, code, 1)


def test_an_accepted_command_is_followed_through_operations() -> None:
    script = Script(
        reply(202, {"status": "pending"}),
        reply(200, {"status": "pending"}),
        Lost("reset"),
        reply(200, {"status": "committed", **DONE}),
    )
    assert script.run(confirm()).result == DONE["result"]
    request_id = json.loads(script.sent[0].content or b"")["request_id"]
    assert [send.path for send in script.sent[1:]] == [f"/v1/operations/{request_id}"] * 3


def test_an_accepted_command_that_nobody_knows_is_sent_again() -> None:
    script = Script(reply(202), problem(404, "not_found"), reply(200, DONE))
    assert script.run(confirm()).replayed is False
    assert [send.method for send in script.sent] == ["POST", "GET", "POST"]
    assert script.sent[0].content == script.sent[2].content


def test_an_accepted_command_may_be_refused_later() -> None:
    refused = {"status": "refused", "problem": {"status": 409, "code": "state_conflict"}}
    with pytest.raises(errors.Conflict):
        Script(reply(202), reply(200, refused)).run(confirm())


def test_a_missed_deadline_of_the_caller_is_told() -> None:
    """Who sets a deadline does not want the command after it: the client must not try on its own."""
    script = Script(problem(504, "deadline_exceeded"))
    with pytest.raises(errors.CallRefused) as caught:
        script.run(confirm(deadline_ms=5))
    assert (caught.value.code, len(script.sent)) == ("deadline_exceeded", 1)


def test_only_undecided_lines_are_sent_again() -> None:
    batch = [CommandLine("POST /v1/payment_intents", {"amount": n}, f"k{n}") for n in range(4)]
    first = [
        {"status": 201, **DONE},
        {"status": 202, "request_id": "r"},
        {"status": 422, "problem": {"code": "invalid_command"}},
        {"status": 503, "problem": {"code": "overloaded"}},
    ]
    again = [{"status": 201, "replayed": True, **DONE}, {"status": 201, **DONE}]
    texts = [b"\n".join(json.dumps(line).encode() for line in lines) for lines in (first, again)]
    script = Script(Lost("reset"), Reply(200, {}, texts[0]), Reply(200, {}, texts[1]))
    found = script.run(protocols.lines(batch, wait_s=10, jitter=JITTER))
    assert [(a.status, a.replayed) for a in found] == [(201, False), (201, True), (422, False), (201, False)]
    keys = [[json.loads(line)["idempotency_key"] for line in (s.content or b"").splitlines()] for s in script.sent]
    assert keys == [["k0", "k1", "k2", "k3"]] * 2 + [["k1", "k3"]]


def test_a_wait_polls_until_the_state_or_the_end() -> None:
    def state(name: str) -> Reply:
        return reply(200, {"id": "pi_1", "state": name})

    script = Script(state("processing"), state("processing"), state("succeeded"))
    waited = script.run(protocols.wait("pi_1", ("succeeded",), iter([5.0, 5.0, 5.0]), JITTER))
    assert waited["state"] == "succeeded"
    assert [send.headers.get("Prefer") for send in script.sent] == [None, "wait=5", "wait=5"]
    with pytest.raises(errors.StillProcessing):
        Script(state("processing"), state("processing")).run(protocols.wait("pi_1", (), iter([1.0]), JITTER))


def test_reads_give_up_after_the_tries() -> None:
    script = Script(*[problem(503, "unavailable")] * limits.CLIENT_TRIES_MAX)
    with pytest.raises(errors.ServiceUnavailable):
        script.run(protocols.get("pi_1", 0, JITTER))


def test_a_stream_over_two_connections_gives_each_event_once() -> None:
    """Half an event of a broken connection is dropped; what comes again is not given again."""

    def lines(*numbers: int) -> list[str]:
        made: list[str] = []
        for n in numbers:
            made += [f"id: c{n}", "event: e", f'data: {{"event_id": "evt_{n}"}}', "", ": alive", ""]
        return made

    reader = sse.EventReader(None)
    reader.connected()
    seen = [e for line in [*lines(1, 2), "id: c3", "data: {"] if (e := reader.feed(line))]
    assert reader.cursor == "c2"
    reader.connected()
    seen += [e for line in lines(2, 3) if (e := reader.feed(line))]
    assert [(e.cursor, e.event["event_id"]) for e in seen] == [("c1", "evt_1"), ("c2", "evt_2"), ("c3", "evt_3")]


def test_batches_are_bounded_and_tokens_are_fresh() -> None:
    assert [len(b) for b in wire.batches([CommandLine("", {})] * 7, 3)] == [3, 3, 1]
    tokens = iter(["one", "two"])
    sent = [wire.request(lambda: next(tokens), Send("GET", "/"))["headers"]["Authorization"] for _ in range(2)]
    assert sent == ["Bearer one", "Bearer two"]


def test_a_time_is_told_in_utc_and_never_guessed() -> None:
    east = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    script = Script(reply(200, {"data": [{"currency": "USD", "pending": 1}]}), reply(200, {"data": []}))
    found = script.run(protocols.balance(east, JITTER))
    assert protocols.by_currency(found) == {"USD": {"pending": 1}}
    script.run(protocols.balance(None, JITTER))
    assert [send.params for send in script.sent] == [{"at": "2026-01-02T01:04:05.000006Z"}, {}]
    with pytest.raises(ValueError, match="zone"):
        protocols.balance(datetime(2026, 1, 2), JITTER)  # noqa: DTZ001 - it is what is refused


def test_a_filter_travels_with_every_page() -> None:
    """A cursor is bound to its filter: to leave it out would be another list."""
    script = Script(reply(200, {"data": []}), reply(200, {"data": []}))
    script.run(protocols.page("/v1/refunds", 5, None, JITTER, {"payment_intent": "pi_1"}))
    script.run(protocols.page("/v1/refunds", 5, "c", JITTER, {"payment_intent": None}))
    assert [send.params for send in script.sent] == [
        {"payment_intent": "pi_1", "limit": "5"},
        {"limit": "5", "cursor": "c"},
    ]


def test_a_field_or_filter_that_the_service_does_not_declare_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(TypeError, match="create_payment_intent has no metadta"):
        declared.fields("create_payment_intent", {"metadta": {}})
    with pytest.raises(TypeError, match="PaymentIntent has no state"):
        declared.filters(PaymentIntent, {"state": "succeeded"})
    assert declared.fields("create_payment_intent", {"amount": 1}) == {"amount": 1}


def test_the_blocking_client_is_the_twin_of_the_other() -> None:
    """If not: ``python -m ingress.client.sync_twin``."""
    assert sync_twin.TWIN.read_text() == sync_twin.made()

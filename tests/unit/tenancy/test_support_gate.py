"""No call under a support grant passes unaudited, and what is asked for in vain writes few rows."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.middleware import Middleware

from ingress.app import create_app
from ingress.http.parts import Parts
from ingress.identity.access_watch import AccessWatch
from ingress.identity.caller import Caller
from ingress.identity.ended import EndedWhenDenied
from ingress.identity.slots import Slots
from ingress.tenancy.support.calls import SupportCalls
from ingress.tenancy.support.gate import SupportGate
from ingress.trust import SUPPORT_ISSUER
from limiter.edge.asgi import QuotaMiddleware
from schemas import errors
from schemas.tenancy import limits

SUPPORT = Caller(principal="tenant:tn_a", subject="ann", scopes=frozenset(), expires_at=1e12, grant_id="sg_1")
NOBODY = Caller(principal="tenant:tn_a", subject="ann", scopes=frozenset(), expires_at=1e12)


class Log:
    """The audit log of a tenant, whose grant is active or not."""

    def __init__(self, *, is_active: bool) -> None:
        self.is_active = is_active
        self.rows_written: list[str] = []
        self.ended: list[dict[int, str]] = []
        self.lines_fail: errors.PlatformError | None = None
        self.ends_meanwhile = False

    async def rows(self, query: str, asked: dict[str, Any]) -> list[tuple[Any, ...]]:
        await asyncio.sleep(0)  # others go on meanwhile
        if query == "support_call_end":
            self.ended.append(dict(zip(asked["numbers"], asked["words"], strict=True)))
            return [(True,)]
        if query == "support_lines_begin":
            if self.lines_fail is not None:
                raise self.lines_fail
            self.rows_written += asked["actions"]
            first = len(self.rows_written) - len(asked["actions"]) + 1
            # the grant ends after the first of them
            return [
                (first + n, "refused" if n and self.ends_meanwhile else "begun") for n in range(len(asked["actions"]))
            ]
        assert (asked["tenant"], asked["grant_id"], asked["actor"]) == ("tn_a", "sg_1", "ann")
        self.rows_written.append(asked["action"])
        return [(len(self.rows_written), "begun" if self.is_active else "refused", "")]


class Answers:
    """The application: how many calls came to it, and how many at once."""

    def __init__(self) -> None:
        self.count = self.at_once = self.at_once_max = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.count, self.at_once = self.count + 1, self.at_once + 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def token(claims: dict[str, Any]) -> str:
    """What nobody signed."""
    parts = [json.dumps(part).encode() for part in ({"alg": "Ed25519"}, claims)]
    said = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    return f"Bearer {said.decode()}.c2ln"


def gate(answers: Answers, calls: SupportCalls, verdict: Caller | errors.PlatformError) -> SupportGate:
    async def judged(_: str | None) -> Caller:
        if isinstance(verdict, errors.PlatformError):
            raise verdict
        return verdict

    return SupportGate(answers, authenticator=SimpleNamespace(caller_in=judged), calls=calls)  # type: ignore[arg-type]


async def asked(gate: SupportGate, authorization: str | None = None) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    scope = {"type": "http", "method": "GET", "path": "/v1/resources/rs_1", "headers": headers}
    await gate(scope, None, send)  # type: ignore[arg-type] # nothing is received
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"iss": SUPPORT_ISSUER, "grant_id": "sg_1"}, 503),
        ({"iss": SUPPORT_ISSUER}, 503),
        ({"iss": "another", "grant_id": "sg_1"}, 503),
        ({"iss": "another"}, 200),
        (None, 200),
    ],
)
def test_a_token_of_a_grant_that_cannot_be_judged_now_is_not_left_to_who_judges_it_later(
    said: dict[str, Any] | None, status: int
) -> None:
    answers, log = Answers(), Log(is_active=True)
    judging = gate(answers, SupportCalls(log), errors.Unavailable())  # type: ignore[arg-type]
    assert asyncio.run(asked(judging, said and token(said))) == status
    assert (answers.count, log.rows_written) == (int(status == 200), [])


def test_whoever_goes_on_after_a_grant_has_ended_writes_few_rows_and_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingress.limits.AUDIT_REFUSALS_EACH_MAX", 10)
    answers, log = Answers(), Log(is_active=False)

    async def all_asked() -> None:
        calls = SupportCalls(log)  # type: ignore[arg-type]
        judging = gate(answers, calls, SUPPORT)
        assert set(await asyncio.gather(*(asked(judging) for _ in range(50)))) == {403}
        assert {await asked(judging) for _ in range(50)} == {403}
        assert len(log.rows_written) < 10 + limits.SUPPORT_CALLS_UNDER_WAY_MAX
        await calls.close()

    asyncio.run(all_asked())
    *each, last = log.rows_written
    assert set(each) == {"GET /v1/resources/rs_1"}
    assert last == f"{100 - len(each)} more calls"
    assert answers.count == 0


def test_one_grant_takes_a_part_of_what_the_log_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, log = Answers(), Log(is_active=True)

    async def all_asked() -> None:
        judging = gate(answers, SupportCalls(log), SUPPORT)  # type: ignore[arg-type]
        assert set(await asyncio.gather(*(asked(judging) for _ in range(30)))) == {200}
        others = gate(answers, SupportCalls(log), NOBODY)  # type: ignore[arg-type]
        assert await asked(others) == 200
        monkeypatch.setattr("ingress.limits.STORE_POOL_WAIT_S", 0)
        assert max(await asyncio.gather(*(asked(judging) for _ in range(6)))) == 503

    asyncio.run(all_asked())
    assert answers.at_once_max <= limits.SUPPORT_CALLS_UNDER_WAY_MAX


LINES = b'{"operation": "DELETE /v1/resources/rs_1"}\n{"operation": "DELETE /v1/resources/rs_2"}\n'


class Carries:
    """The application: it carries out the lines that came to it whole, and answers each as it is told to."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = statuses
        self.carried_out = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raw, is_more = b"", True
        try:
            while is_more:
                message = await receive()
                raw, is_more = raw + message["body"], message["more_body"]
        except errors.PlatformError:  # as the handlers of the application have it
            await send({"type": "http.response.start", "status": 503, "headers": []})
            return
        self.carried_out = raw
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"".join(b'{"status":%d}\n' % one for one in self.statuses)})


async def listed(log: Log, carries: Carries, raw: bytes = LINES) -> int:
    """The status of the answer to a list that comes in parts."""
    parts = [raw[:50], raw[50:], b""]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    judging = gate(carries, SupportCalls(log), SUPPORT)  # type: ignore[arg-type]
    await judging({"type": "http", "method": "POST", "path": "/v1/commands", "headers": []}, receive, send)
    return int(sent[0]["status"])


def test_no_line_of_a_list_is_carried_out_before_each_has_its_row() -> None:
    for fails, ends in ((errors.Unavailable(), False), (None, True)):
        log, carries = Log(is_active=True), Carries(200, 200)
        log.lines_fail, log.ends_meanwhile = fails, ends
        assert asyncio.run(listed(log, carries)) == 503
        assert carries.carried_out == b""
        assert log.ended == ([{2: "refused"}] if ends else []) + [{1: "refused"}]


def test_a_list_has_a_row_for_each_line_with_what_was_answered_to_it() -> None:
    cases = (((200, 404), "done", ["done", "refused"]), ((404, 404), "refused", ["refused", "refused"]),
             ((202, 503), "done", ["done", "refused"]), ((200,), "refused", ["refused", "refused"]))  # fmt: skip
    for statuses, own, words in cases:
        log, carries = Log(is_active=True), Carries(*statuses)
        assert asyncio.run(listed(log, carries)) == 200
        assert carries.carried_out == LINES
        assert log.rows_written == ["POST /v1/commands", "DELETE /v1/resources/rs_1", "DELETE /v1/resources/rs_2"]
        assert log.ended == [{1: own, 2: words[0], 3: words[1]}], statuses


def test_a_list_that_its_route_refuses_whole_has_no_rows_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bound in (("COMMANDS_LINES_MAX", 1), ("COMMANDS_BODY_BYTES_MAX", len(LINES) - 1)):
        with monkeypatch.context() as bounded:
            bounded.setattr(f"ingress.limits.{name}", bound)
            log = Log(is_active=True)
            asyncio.run(listed(log, Carries()))
            assert log.rows_written == ["POST /v1/commands"]


def test_what_services_add_is_behind_what_bounds_a_caller() -> None:
    service = SimpleNamespace(middleware=lambda _: (Middleware(SupportGate),), caller_of=None)
    config = SimpleNamespace(limiter=object(), trusted_proxies=())
    audit, known = (
        SimpleNamespace(suspicious=None),
        {"authenticator": SimpleNamespace(principal_in=None), "denials": None},
    )
    ingress: Any = SimpleNamespace(
        parts=Parts(), services=[service], config=config, audit=audit, caller_at_console=None, **known
    )
    order = [layer.cls for layer in create_app(ingress).user_middleware]
    assert order[-1] is SupportGate
    assert {Slots, QuotaMiddleware, EndedWhenDenied, AccessWatch} < set(order)

"""Who is denied is refused by every process within seconds, and what it has open ends; nobody is let in by an old list."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ingress import limits
from ingress.http import problems
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.identity.denials import Denials
from ingress.identity.ended import EndedWhenDenied
from ingress.identity.issuer import AUDIENCE, ISSUER, KeyFolder, issue_token
from ingress.identity.jwks import KeySource
from schemas import errors
from schemas.operators import access_denial
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Rows:
    """The list as Postgres gives it, which can be away or slow."""

    def __init__(self, *denied: tuple[str, str, float | None]) -> None:
        self.denied = list(denied)
        self.version = 1
        self.reads = 0
        self.is_away = False
        self.time_s = time.time()

    def change(self, *denied: tuple[str, str, float | None]) -> None:
        self.denied, self.version = list(denied), self.version + 1

    async def rows(self, _: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise errors.Unavailable
        new = self.denied if parameters["known"] != self.version else []
        return [(self.time_s, self.version, *row) for row in new] or [(self.time_s, self.version, None, None, None)]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def caller(principal: str = "m_1", *, subject: str = "ann", issued_at: float = 50, **more: Any) -> Caller:
    found = {"token_id": "t1", "expires_at": 1e9, "scopes": frozenset[str]()} | more
    return Caller(principal=principal, subject=subject, issued_at=issued_at, **found)


def refusal_of(one: Caller, *denied: tuple[str, str, float | None]) -> str | None:
    try:
        asyncio.run(Denials(Rows(*denied), Clock()).require(one))
    except errors.PlatformError as error:
        return error.code
    return None


@each(
    ("principal", "denied", "code"),
    [
        ("m_1", ("merchant", "m_1", None), "suspended"),
        ("tenant:m_1", ("tenant", "m_1", None), "suspended"),
        ("user:m_1", ("user", "m_1", None), "suspended"),
        ("m_1", ("tenant", "m_1", None), None),
        ("user:m_1", ("merchant", "m_1", None), None),
        ("m_1", ("merchant", "m_2", None), None),
        ("staff:ann", ("subject", "ann", None), "suspended"),
        ("m_1", ("subject", "bob", None), None),
        ("m_1", ("token", "t1", None), "unauthenticated"),
        ("m_1", ("token", "t2", None), None),
        ("m_1", ("merchant", "m_1", 50.0), "unauthenticated"),
        ("m_1", ("merchant", "m_1", 49.9), None),
        ("m_1", ("subject", "ann", 50.5), "unauthenticated"),
    ],
)
def test_whom_a_row_refuses(principal: str, denied: tuple[str, str, float | None], code: str | None) -> None:
    assert refusal_of(caller(principal), denied) == code


def test_support_goes_on_for_a_tenant_that_is_suspended() -> None:
    one = caller("tenant:t", grant_id="g", subject="support")
    assert refusal_of(one, ("tenant", "t", None)) is None
    assert refusal_of(one, ("subject", "support", None)) == "suspended"


def test_what_became_known_meanwhile_is_asked_before_anybody_is_let_in() -> None:
    """A process that slept has an old list: it is read again first."""

    async def play() -> None:
        rows, clock = Rows(), Clock()
        denials = Denials(rows, clock)
        await denials.require(caller())
        rows.change(("merchant", "m_1", None))
        await denials.require(caller())  # a moment old is good enough
        assert rows.reads == 1
        clock.now += limits.ACCESS_DENIED_STALE_MAX_S + 0.1
        with pytest.raises(errors.Suspended):
            await denials.require(caller())
        rows.change()
        clock.now += limits.ACCESS_DENIED_STALE_MAX_S + 0.1
        await denials.require(caller())

    asyncio.run(play())


def test_a_list_that_cannot_be_read_lets_nobody_in() -> None:
    async def play() -> None:
        rows, clock = Rows(), Clock()
        denials = Denials(rows, clock)
        await denials.require(caller())
        rows.is_away = True
        await denials.require(caller())
        clock.now += limits.ACCESS_DENIED_STALE_MAX_S + 0.1
        together = await asyncio.gather(*(denials.require(caller()) for _ in range(50)), return_exceptions=True)
        assert {type(one) for one in together} == {errors.Unavailable}
        assert rows.reads == 2  # one look for all of them
        rows.is_away = False
        clock.now += limits.ACCESS_DENIED_RETRY_S
        await denials.require(caller())

    asyncio.run(play())


@pytest.mark.parametrize("off_s", [-3600, -61, -59, 0, 59, 61, 3600])
def test_by_a_clock_that_is_far_off_the_database_s_nobody_is_let_in(off_s: int) -> None:
    """It would believe tokens that have expired; set right, it lets callers in with the next look."""

    async def play() -> None:
        rows, clock, wall = Rows(), Clock(), Clock()
        rows.time_s, wall.now = 1_000_000.0, 1_000_000.0 + off_s
        denials = Denials(rows, clock, wall)
        if abs(off_s) > limits.CLOCK_OFF_MAX_S:
            with pytest.raises(errors.Unavailable, match=rf"clock of this server is \{off_s:+d} s off"):
                await denials.require(caller())
            with pytest.raises(errors.Unavailable):
                denials.require_clock()
            wall.now = rows.time_s
            clock.now += limits.ACCESS_DENIED_STALE_MAX_S + 0.1
        await denials.require(caller())
        denials.require_clock()

    asyncio.run(play())


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_by_a_clock_that_is_far_off_no_good_token_is_called_bad(tmp_path: Path, off_s: int) -> None:
    """Else its caller would give up, as for a token that has expired."""
    keys = KeyFolder(tmp_path / "keys")
    keys.ensure()
    token = "Bearer " + issue_token(keys, "m_1", ttl_s=600)

    async def play() -> None:
        rows, wall = Rows(), Clock()
        rows.time_s = time.time()
        wall.now = rows.time_s + off_s
        denials = Denials(rows, Clock(), wall)
        proven = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,), denials=denials, clock=wall)
        with suppress(errors.Unavailable):
            await denials.require(caller())
        with pytest.raises(errors.Unavailable, match="clock of this server"):
            await proven.caller(token)
        wall.now = rows.time_s
        await denials._read_now()
        assert (await proven.caller(token)).merchant == "m_1"
        wall.now = rows.time_s + 700
        with pytest.raises(errors.Unauthenticated, match="expired"):
            await proven.caller(token)

    asyncio.run(play())


def test_a_database_that_answers_late_does_not_make_our_clock_wrong() -> None:
    """Its time lies between our question and its answer, however long that took."""

    async def play() -> None:
        rows, wall = Rows(), Clock()
        rows.time_s = wall.now + 90
        told = rows.rows

        async def slowly(query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
            found = await told(query, parameters)
            wall.now += 100  # as when the process was stopped meanwhile
            return found

        rows.rows = slowly  # type: ignore[method-assign]
        await Denials(rows, Clock(), wall).require(caller())

    asyncio.run(play())


class Open:
    """One request that a caller has open, through the middleware."""

    def __init__(self, denials: Denials, app: ASGIApp, method: str = "GET", **more: Any) -> None:
        class Authenticator:
            async def caller_in(self, _: Scope, *, anew: bool) -> Caller:
                assert anew
                return caller()

        async def send(message: Message) -> None:
            self.sent.append(message)
            if message.get("body"):
                self.begun.set()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        self.sent: list[Message] = []
        self.begun = asyncio.Event()
        scope: Scope = {"type": "http", "method": method, "headers": [], "path": "/", "query_string": b""}
        parts = {"authenticator": Authenticator(), "denials": denials, "refusal": _refusal} | more
        layer = EndedWhenDenied(app, **parts)
        self.task = asyncio.get_running_loop().create_task(self._run(layer, scope, receive, send))

    async def _run(self, layer: EndedWhenDenied, scope: Scope, receive: Receive, send: Send) -> None:
        await layer(scope, receive, send)


def _refusal(error: errors.PlatformError) -> Response:
    return Response(error.code, problems.row(error.code).status)


async def long_poll(_: Scope, __: Receive, send: Send) -> None:
    await asyncio.Event().wait()
    await send({})


async def stream(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    await asyncio.Event().wait()


async def _denied(rows: Rows, denials: Denials, clock: Clock, *denied: tuple[str, str, float | None]) -> None:
    await asyncio.sleep(0)
    rows.change(*denied)
    clock.now += limits.ACCESS_DENIED_STALE_MAX_S + 0.1
    await denials.require(caller("m_other", subject="bob", token_id="t9"))


def play_open(work: Callable[[Rows, Denials, Clock], Any]) -> Any:
    async def play() -> Any:
        rows, clock = Rows(), Clock()
        return await work(rows, Denials(rows, clock), clock)

    return asyncio.run(play())


def test_a_long_poll_of_who_is_denied_is_refused_and_a_stream_ends() -> None:
    async def work(rows: Rows, denials: Denials, clock: Clock) -> None:
        poll, listening = Open(denials, long_poll), Open(denials, stream)
        await _denied(rows, denials, clock, ("merchant", "m_1", None))
        await asyncio.wait_for(asyncio.gather(poll.task, listening.task), 5)
        assert poll.sent[0]["status"] == 403
        assert [m.get("body") for m in listening.sent[1:]] == [b"one", b""]
        assert listening.sent[-1]["more_body"] is False

    play_open(work)


def test_what_others_have_open_goes_on_and_so_does_a_command() -> None:
    async def work(rows: Rows, denials: Denials, clock: Clock) -> None:
        poll, command = Open(denials, long_poll), Open(denials, long_poll, "POST")
        await _denied(rows, denials, clock, ("merchant", "m_2", None))
        assert not poll.task.done()
        await _denied(rows, denials, clock, ("merchant", "m_1", None))
        await asyncio.wait_for(poll.task, 5)
        assert not command.task.done()
        command.task.cancel()

    play_open(work)


@pytest.mark.parametrize("cookie_of", [None, "m_2"])
def test_who_could_not_be_told_when_a_stream_began_is_ended_when_denied(cookie_of: str | None) -> None:
    """The list could not be read for a moment; a moment later the route read it, and let the caller in."""

    async def work(rows: Rows, denials: Denials, clock: Clock) -> None:
        class Authenticator:
            async def caller_in(self, _: Scope, *, anew: bool = False) -> Caller:
                del anew
                await denials.require(caller())
                return caller()

        async def events() -> AsyncIterator[bytes]:
            yield b"one"
            await asyncio.Event().wait()

        async def route(request: Request) -> Response:
            rows.is_away = False
            clock.now += limits.ACCESS_DENIED_RETRY_S
            await Authenticator().caller_in(request.scope)
            return StreamingResponse(events())

        rows.is_away = True
        app = Starlette(routes=[Route("/", route)], exception_handlers={errors.PlatformError: lambda *_: Response()})
        sessions = [lambda _: cookie_of and caller(cookie_of, subject="bob", token_id="t2")]
        listening = Open(denials, app, authenticator=Authenticator(), sessions=sessions)
        await asyncio.wait_for(listening.begun.wait(), 5)
        await _denied(rows, denials, clock, ("merchant", "m_1", None))
        await asyncio.wait_for(listening.task, 5)
        assert [m.get("body") for m in listening.sent[1:]] == [b"one", b""]
        assert listening.sent[-1]["more_body"] is False

    play_open(work)


def test_who_leaves_is_not_answered() -> None:
    """A cancellation that is not ours stays one."""

    async def work(_: Rows, denials: Denials, __: Clock) -> None:
        poll = Open(denials, long_poll)
        await asyncio.sleep(0)
        poll.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll.task
        assert poll.sent == []

    play_open(work)


@pytest.mark.parametrize(
    ("kind", "name", "so_far", "fields"),
    [
        ("merchant", "m_1", True, []),
        ("subject", "ann@example.org", False, []),
        ("token", "3f", False, []),
        ("token", "3f", True, ["tokens_so_far"]),
        ("merchant", "m:1", False, ["name"]),
        ("user", 5, "yes", ["name", "tokens_so_far"]),
        ("processor", "p", False, ["kind"]),
    ],
)
def test_what_an_operator_may_say(kind: str, name: object, so_far: object, fields: list[str]) -> None:
    try:
        access_denial.require(kind, name, "fraud", so_far=so_far)
    except errors.InvalidCommand as error:
        assert [one["field"] for one in error.errors] == fields
    else:
        assert fields == []

"""Who asks for what: the bounds, windows and subjects of the watch, and that it changes no answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.datastructures import Headers

from ingress import limits
from ingress.browser.session import SignedIn
from ingress.console.session import COOKIE, Session, Sessions
from ingress.identity.access_watch import BOUNDS, AccessPatterns, AccessWatch, Anomaly
from ingress.identity.caller import Caller
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Scope


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def found(patterns: AccessPatterns, kind: str, count: int, subject: str = "m_1 ann", first: int = 0) -> list[Anomaly]:
    return [one for n in range(first, first + count) if (one := patterns.saw(kind, subject, f"/v1/refunds/re_{n}"))]


@pytest.mark.parametrize("kind", ["enumeration", "operator_fan_out"])
def test_past_the_bound_it_is_found_once_in_a_window(kind: str) -> None:
    """Paths may share a bit, so a few more than the bound may be needed, never fewer."""
    clock = Clock()
    patterns = AccessPatterns(clock)
    assert found(patterns, kind, BOUNDS[kind]) == []
    more = found(patterns, kind, BOUNDS[kind], first=BOUNDS[kind])
    assert more == [Anomaly(kind=kind, subject="m_1 ann", count=BOUNDS[kind] + 1)]
    clock.now = limits.ACCESS_WINDOW_S
    assert found(patterns, kind, BOUNDS[kind]) == []
    assert len(found(patterns, kind, BOUNDS[kind], first=BOUNDS[kind])) == 1


def test_the_same_path_again_and_others_accesses_count_for_nothing() -> None:
    patterns = AccessPatterns(Clock())
    for _ in range(3 * BOUNDS["enumeration"]):
        assert patterns.saw("enumeration", "m_1 ann", "/v1/refunds/re_1") is None
    for n in range(3 * BOUNDS["enumeration"]):
        assert patterns.saw("enumeration", f"m_{n} ann", f"/v1/refunds/re_{n}") is None


def test_a_crowd_of_subjects_takes_bounded_memory() -> None:
    patterns = AccessPatterns(Clock())
    for n in range(limits.ACCESS_SUBJECTS_MAX + 10):
        patterns.saw("enumeration", f"m_{n} ann", "/v1/refunds/re_1")
    assert len(patterns._counted) == limits.ACCESS_SUBJECTS_MAX


class Tokens:
    """An authenticator of tokens that are ``merchant:scope``."""

    async def caller_in(self, request: Scope) -> Caller:
        merchant, colon, scope = Headers(scope=request).get("authorization", "").removeprefix("Bearer ").partition(":")
        if not colon:
            raise errors.Unauthenticated
        return Caller(principal=merchant, subject="ann", scopes=frozenset([scope]), expires_at=0)


CONSOLE: SignedIn[Session] = SignedIn(Sessions(b"0" * 32), None, None)  # type: ignore[arg-type] # asks no database


def signed_in(*scopes: str) -> str:
    """The cookie of a person of staff at the console."""
    caller = Caller(principal="staff:bob", subject="bob", scopes=frozenset(scopes), expires_at=time.time() + 3_600)
    return CONSOLE.sessions.cookie(CONSOLE.sessions.opened(caller))


async def _asked(
    status: int, calls: Iterable[tuple[str, str | None]], peer: str = "198.51.100.7", cookie: str = ""
) -> tuple[list[Anomaly], set[int]]:
    """Calls (path, token) that are all answered alike: what is told, and what the callers hear."""
    told: list[Anomaly] = []
    answered: set[int] = set()

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def tell(one: Anomaly) -> None:
        told.append(one)
        raise errors.Unavailable("the log is away")  # never the caller's business

    async def send(message: Any) -> None:
        answered.add(message["status"])

    watch = AccessWatch(app, authenticator=Tokens(), tell=tell, sessions=[lambda _: None, CONSOLE.caller_of])  # type: ignore[arg-type] # what is asked of it
    for asked, token in calls:
        path, _, query = asked.partition("?")
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        headers += [(b"cookie", f"{COOKIE}={cookie}".encode())] if cookie else []
        scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": headers, "client": (peer, 1)}
        await watch(scope, None, send)  # type: ignore[arg-type] # nobody receives
    await asyncio.sleep(0)
    return told, answered


def calls(count: int, token: str | None, path: str = "/v1/payment_intents/pi_{}") -> list[tuple[str, str | None]]:
    return [(path.format(n), token) for n in range(count)]


@pytest.mark.parametrize(
    ("status", "token", "kind", "subject"),
    [
        (404, "m_1:payments:read", "enumeration", "m_1 ann"),
        (200, "m_1:operator", "operator_fan_out", "m_1 ann"),
        (401, "forged", "token_guessing", "198.51.100.0/24"),
    ],
)
def test_what_answers_say_is_told_and_left_as_it_is(status: int, token: str, kind: str, subject: str) -> None:
    told, answered = asyncio.run(_asked(status, calls(2 * BOUNDS[kind], token)))
    assert [(one.kind, one.subject) for one in told] == [(kind, subject)]
    assert answered == {status}


@pytest.mark.parametrize(
    ("status", "scope", "path", "kind"),
    [
        (200, "operator:support", "/console/payments/pi_{}", "operator_fan_out"),
        (200, "console:read", "/console/payments/pi_{}", "operator_fan_out"),
        (200, "console:read", "/console/search?q=pi_{}", "operator_fan_out"),
        (404, "console:read", "/console/payments/pi_{}", "enumeration"),
    ],
)
def test_who_reads_far_too_much_at_the_console_is_told(status: int, scope: str, path: str, kind: str) -> None:
    """A stolen cookie is worth as much as a token."""
    cookie, count = signed_in(scope), 2 * BOUNDS[kind]
    told, answered = asyncio.run(_asked(status, calls(count, None, path), cookie=cookie))
    assert [(one.kind, one.subject) for one in told] == [(kind, "staff:bob bob")]
    assert answered == {status}
    same = [("/console/payments?state=open", None)] * count  # a page that looks for what is new
    assert asyncio.run(_asked(status, same, cookie=cookie))[0] == []
    assert asyncio.run(_asked(status, calls(count, None, path), cookie="forged"))[0] == []


def test_a_network_that_speaks_for_many_merchants_is_told_and_a_proxy_of_this_machine_is_none() -> None:
    many = [("/v1/balance", f"m_{n}:payments:read") for n in range(2 * BOUNDS["merchant_fan_out"])]
    told, _ = asyncio.run(_asked(200, many, "2001:db8::1"))
    assert [(one.kind, one.subject) for one in told] == [("merchant_fan_out", "2001:db8::/56")]
    assert asyncio.run(_asked(200, many, "127.0.0.1"))[0] == []
    assert asyncio.run(_asked(401, calls(2 * BOUNDS["token_guessing"], "forged"), "::1"))[0] == []


@pytest.mark.parametrize(
    ("status", "token", "path"),
    [
        (422, "m_1:operator", "/v1/payment_intents/pi_{}"),  # wrong, but not looking for anything
        (200, "m_1:payments:write", "/v1/payment_intents/pi_{}/confirm"),  # a merchant's business, however wide
        (404, None, "/v1/payment_intents/pi_{}"),  # nobody to say it of: token_guessing has the 401s
        (404, "m_1:payments:read", "/favicon/{}"),
    ],
)
def test_what_says_nothing_is_not_counted(status: int, token: str | None, path: str) -> None:
    told, _ = asyncio.run(_asked(status, calls(2 * max(BOUNDS.values()), token, path)))
    assert told == []

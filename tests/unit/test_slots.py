"""Whoever hangs on to requests, streams or waits takes from itself; refusals fill no log."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.datastructures import Headers

from ingress import limits
from ingress.commands.events import EventStreams
from ingress.identity.asking import ASKING
from ingress.identity.caller import Caller
from ingress.identity.refusals import Refusals
from ingress.identity.slots import Bounds, Slots
from schemas import errors

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


def caller(name: str) -> Caller:
    return Caller(principal=name, subject=name, scopes=frozenset(), expires_at=time.time() + 60)


async def believed(scope: Scope) -> str:
    """Whatever name is said."""
    authorization = Headers(scope=scope).get("authorization")
    if authorization is None:
        raise errors.Unauthenticated
    return authorization


class Hanging:
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self._began = asyncio.Semaphore(0)

    async def began(self, count: int) -> None:
        """Returns when so many more requests are under way."""
        for _ in range(count):
            await asyncio.wait_for(self._began.acquire(), 20)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._began.release()
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def asked(
    slots: Slots, name: str | None = None, address: str = "192.0.2.1", path: str = "/v1/x", cookie: str = ""
) -> Any:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads a refused body")

    headers = [] if name is None else [(b"authorization", name.encode())]
    headers += [(b"cookie", cookie.encode())] if cookie else []
    await slots({"type": "http", "path": path, "headers": headers, "client": (address, 1)}, receive, send)
    return sent[0]


def taken(slots: Slots) -> dict[str, int]:
    return {name: count for shares in slots._shares.values() for name, count in shares.taken.items()}


def by_cookie(headers: Headers) -> Caller | None:
    name = headers.get("cookie")
    return Caller(principal=name, subject=name, scopes=frozenset(), expires_at=0) if name else None


def test_each_takes_from_its_own() -> None:
    refused_by_kind = CollectorRegistry()
    refusals = Counter("refused", "by kind", ["kind"], registry=refused_by_kind)

    async def flood() -> None:
        app = Hanging()
        bounds = Bounds(of_callers=6, of_strangers=4)
        slots = Slots(app, believed, bounds, refusals, sessions=[by_cookie])
        async with asyncio.TaskGroup() as hanging:
            wanted = [("m_1", "192.0.2.1")] * 3 + [(None, f"192.0.2.{n // 2}") for n in range(3)]
            for name, address in wanted:
                hanging.create_task(asked(slots, name, address))
            await app.began(len(wanted))
            for name, address in (("m_1", "192.0.2.9"), (None, "192.0.2.0"), (None, "192.0.2.1")):
                refused = await asked(slots, name, address)
                assert (refused["status"], (b"connection", b"close") in refused["headers"]) == (503, True)
            hanging.create_task(asked(slots, "m_2", "192.0.2.0"))  # who proves to be somebody has places of its own
            hanging.create_task(asked(slots, None, "192.0.2.0", "/readyz"))
            hanging.create_task(asked(slots, None, "192.0.2.0", cookie="user:u_1"))  # by the session of a page
            await app.began(3)
            app.go_on.set()
        assert taken(slots) == {}
        assert [(await asked(slots, name))["status"] for name in ("m_1", None)] == [200, 200]

    asyncio.run(flood())
    told = {kind: refused_by_kind.get_sample_value("refused_total", {"kind": kind}) for kind in ("caller", "stranger")}
    assert told == {"caller": 1, "stranger": 2}


@pytest.mark.parametrize("greedy", [1, 2, 3, 7])
def test_however_many_take_all_that_they_get_the_next_one_has_places(greedy: int) -> None:
    """Callers who wait for ever, one place after the other, and a quiet one beside them."""

    async def flood() -> None:
        app, refusals = Hanging(), Counter("refused", "by kind", ["kind"], registry=CollectorRegistry())
        slots = Slots(app, believed, Bounds(of_callers=48, of_strangers=8), refusals)
        async with asyncio.TaskGroup() as hanging:
            for number in range(48 * greedy):
                hanging.create_task(asked(slots, f"m_{number % greedy}"))
            share = 48 // (greedy + 1)
            await app.began(share * greedy)
            assert set(taken(slots).values()) == {share}
            for _ in range(share // 2):
                hanging.create_task(asked(slots, "quiet"))
            await app.began(share // 2)
            app.go_on.set()
        assert taken(slots) == {}

    asyncio.run(flood())


def test_our_own_are_bound_elsewhere() -> None:
    async def flood() -> None:
        app, refusals = Hanging(), Counter("refused", "by kind", ["kind"], registry=CollectorRegistry())
        slots = Slots(app, believed, Bounds(2, 2), refusals, bound_elsewhere=("ours",))
        async with asyncio.TaskGroup() as hanging:
            for _ in range(5):
                hanging.create_task(asked(slots, "ours"))
            await app.began(5)
            hanging.create_task(asked(slots, "m_1"))
            await app.began(1)
            app.go_on.set()
        assert taken(slots) == {}

    asyncio.run(flood())


def test_streams_of_one_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENT_STREAMS_OF_CALLER_MAX", 2)
    monkeypatch.setattr(limits, "EVENT_STREAMS_MAX", 3)
    streams = EventStreams(None, None, None)  # type: ignore[arg-type] # nothing is read here
    one, two, three = map(caller, ("m_1", "m_2", "m_3"))
    streams.admit(one)
    streams.admit(one)
    with pytest.raises(errors.Overloaded, match="of this caller"):
        streams.admit(one)
    streams.admit(two)
    with pytest.raises(errors.Overloaded):
        streams.admit(three)
    streams.leave(one)
    streams.admit(three)
    for left in (one, two, three):
        streams.leave(left)
    assert streams._places._shares.taken == {}


def _opens_all_it_gets(streams: EventStreams, name: str) -> None:
    for _ in range(limits.EVENT_STREAMS_MAX):
        streams.admit(caller(name))


@pytest.mark.parametrize("greedy", [1, 4, 5, 8])
def test_however_many_open_all_the_streams_that_they_get_the_next_one_has_some(greedy: int) -> None:
    """Five with the most that one may have would be all there are."""
    streams = EventStreams(None, None, None)  # type: ignore[arg-type] # nothing is read here
    for name in range(greedy):
        with pytest.raises(errors.Overloaded, match="of this caller"):
            _opens_all_it_gets(streams, f"m_{name}")
    streams.admit(caller("m_next"))


def test_many_refusals_are_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_REFUSALS_EACH_MAX", 3)
    monkeypatch.setattr(limits, "AUDIT_REFUSALS_KEYS_MAX", 2)
    rows: list[tuple[tuple[str, str], int]] = []

    async def append(key: tuple[str, str], count: int) -> None:
        rows.append((key, count))

    async def refused() -> None:
        async with AsyncExitStack() as stack:
            refusals = Refusals(append)
            stack.push_async_callback(refusals.close)
            written = [refusals.is_written(("ann", "case.read")) for _ in range(10)]
            assert written == [True] * 3 + [False] * 7
            assert refusals.is_written(("bob", "case.read"))
            assert not any(refusals.is_written((f"x{n}", "case.read")) for n in range(50))
        assert rows == [(("ann", "case.read"), 7), (("(others)", "(others)"), 50)]

    asyncio.run(refused())


def test_the_number_is_written_when_the_minute_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_REFUSALS_WINDOW_S", 0.0)

    async def refused() -> None:
        written = asyncio.Event()

        async def append(key: tuple[str, str], count: int) -> None:
            assert (key, count) == (("ann", "a"), 1)
            written.set()

        refusals = Refusals(append)
        for _ in range(limits.AUDIT_REFUSALS_EACH_MAX + 1):
            refusals.is_written(("ann", "a"))
        await asyncio.wait_for(written.wait(), 20)
        assert refusals.is_written(("ann", "a"))  # of the next one

    asyncio.run(refused())


def test_what_a_request_does_knows_who_asks() -> None:
    """Also behind one of somebody else on the same task, as a server may handle them."""
    found: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        found.append(await asyncio.create_task(_asking()))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask() -> None:
        refusals = Counter("refused", "by kind", ["kind"], registry=CollectorRegistry())
        slots = Slots(app, believed, Bounds(2, 2), refusals, sessions=[by_cookie], bound_elsewhere=("ours",))
        for name, cookie in (("tenant:tn_1", ""), (None, ""), (None, "user:u_1"), (None, ""), ("ours", "")):
            await asked(slots, name, cookie=cookie)

    asyncio.run(ask())
    assert found == ["tenant:tn_1", "", "user:u_1", "", "ours"]


async def _asking() -> str:
    return ASKING.get()

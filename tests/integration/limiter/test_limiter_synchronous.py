"""The blocking limiter on a real Valkey: many threads at once, an end that gives back, a fork that is noticed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis

from limiter import SyncLimiter
from limiter.edge.asgi import Asker
from limiter.edge.wsgi import QuotaWsgi
from schemas import errors
from tests.eventually import becomes
from tests.worlds.limiter.counter_server import PATIENT_S, CounterServer, limiter, policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from limiter import Limiter

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _empty(server: CounterServer) -> None:
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()


def blocking(
    server: CounterServer, folder: Path, waiting_max: int = 64, timeout_s: float = PATIENT_S, **terms: Any
) -> SyncLimiter:
    def made() -> AbstractAsyncContextManager[Limiter]:
        return limiter(server.url, folder, policy(**terms), timeout_s=timeout_s)

    return SyncLimiter(made, waiting_max=waiting_max, timeout_s=60)


@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_threads_share_one_quota_and_retries_consume_once(
    server: CounterServer, tmp_path: Path, consistency: str
) -> None:
    with blocking(server, tmp_path, capacity=100, consistency=consistency) as made, ThreadPoolExecutor(16) as pool:
        once = list(pool.map(lambda n: made.check("t", "u", "/r", 1, f"r{n % 40}"), range(160)))
        assert all(decided.allowed for decided in once)
        assert sum(not decided.duplicate for decided in once) == 40
        more = sum(pool.map(lambda _: made.check("t", "u", "/r").allowed, range(200)))
        assert more in ({"exact": [60], "leased": range(50, 61)}[consistency])
    with blocking(server, tmp_path, capacity=100, consistency=consistency) as again:
        assert again.check("t", "u", "/r", 0).remaining == 60 - more  # what was held has been given back


def test_refusals_are_raised_where_they_were_asked(server: CounterServer, tmp_path: Path) -> None:
    with blocking(server, tmp_path, consistency="exact") as made:
        with pytest.raises(errors.InvalidCommand):
            made.check("t", "u", "/r", -1)
        with pytest.raises(errors.InvalidCommand):
            made.check("t", "u", "/r", network="fe80::1%1")
        made.check("t", "u", "/r", 1, "once")
        with pytest.raises(errors.KeyReused):
            made.check("t", "u", "/r", 2, "once")


def test_who_asks_one_too_many_at_once_is_told(server: CounterServer, tmp_path: Path) -> None:
    """One waits for the store, which stands still; of the others none can have its place meanwhile."""

    def asked(user: str) -> str:
        try:
            return "degraded" if made.check("t", user, "/r").degraded else "decided"
        except errors.Overloaded:
            return "refused"

    with blocking(server, tmp_path, waiting_max=1, timeout_s=2, consistency="exact") as made:
        with server.frozen(), ThreadPoolExecutor(8) as pool:
            found = list(pool.map(asked, [f"u{n}" for n in range(8)]))
        assert {"degraded", "refused"} == set(found)
        becomes(lambda: asked("v"), "decided", 60)  # the place is free again


def test_after_its_end_it_answers_at_once(server: CounterServer, tmp_path: Path) -> None:
    made = blocking(server, tmp_path)
    made.close()
    made.close()
    with pytest.raises(errors.Unavailable, match="closed"):
        made.check("t", "u", "/r")


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    @asynccontextmanager
    async def made() -> AsyncIterator[Limiter]:
        raise OSError("no folder")
        yield  # type: ignore[unreachable]

    with pytest.raises(OSError, match="no folder"):
        SyncLimiter(made)


def test_a_fork_is_noticed(server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child has no thread that would answer: the parent's number is what tells it."""
    with blocking(server, tmp_path) as made:
        pid = os.getpid()
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: pid + 1)
            with pytest.raises(errors.InvariantViolation, match="fork"):
                made.check("t", "u", "/r")
            made.close()  # it is not the child's to close
        assert made.check("t", "u", "/r").allowed


def test_a_wsgi_request_holds_its_permit_until_its_answer_is_closed(server: CounterServer, tmp_path: Path) -> None:
    """However it ends: read whole, by an error of the application, or by a server that gives up half-way."""
    closed: list[str] = []

    class Answer(list[bytes]):
        def close(self) -> None:
            closed.append("closed")

    def app(environ: dict[str, Any], start: Any) -> Answer:
        if environ["PATH_INFO"] == "/fails":
            raise RuntimeError
        start("200 OK", [])
        return Answer([b"a", b"b"])

    with blocking(server, tmp_path, capacity=1, consistency="exact", algorithm="concurrency") as made:
        limited = QuotaWsgi(app, made, lambda _: Asker("t", "u", "/r"), lambda _: "one identity")
        told: list[str] = []

        def ask(path: str = "/") -> Any:
            return limited({"PATH_INFO": path}, lambda status, *_: told.append(status))

        first = ask()
        ask()
        assert told == ["200 OK", "429 Too Many Requests"]
        assert list(first) == [b"a", b"b"]
        first.close()
        assert closed == ["closed"]
        for _ in range(2):
            with pytest.raises(RuntimeError):
                ask("/fails")
        for _ in range(2):  # a server that gives up does not read it, and closes it all the same
            ask().close()
        assert told[2:] == ["200 OK"] * 2
        assert made.check("t", "u", "/r").allowed

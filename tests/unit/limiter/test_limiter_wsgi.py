"""What stands in front of an application answers whoever comes, whatever a request names and whoever is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter import InProcessLimiter
from limiter.edge.asgi import Asker, QuotaMiddleware
from limiter.edge.wsgi import QuotaWsgi
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from limiter import Decision

TEN = {"algorithm": "fixed_window", "capacity": 10, "window_ms": 3_600_000}
NO_KEYS = ["/a\x00b", "/%2525252525", "/" + "a" * 2_000, "/\x7f", "/%ff"]


def app(_: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"found"]


def asker(environ: Any) -> Asker:
    return Asker("shop", "anonymous", environ["PATH_INFO"])


def asked(limited: QuotaWsgi, path: str = "/") -> tuple[str, dict[str, str]]:
    told: list[Any] = []
    limited({"PATH_INFO": path}, lambda *start: told.extend(start))  # type: ignore[arg-type]
    return told[0], dict(told[1])


@pytest.mark.parametrize("path", NO_KEYS)
def test_a_path_that_can_be_no_key_is_the_callers_fault(path: str) -> None:
    limited = InProcessLimiter(TEN)
    assert asked(QuotaWsgi(app, limited, asker), path)[0] == "400 Bad Request"
    told: list[Any] = []

    async def who_asks(scope: Any) -> Asker:
        return Asker("shop", "anonymous", scope["path"])

    async def send(message: Any) -> None:
        told.append(message)

    def never(*_: Any) -> Any:
        raise AssertionError

    middleware = QuotaMiddleware(never, limited.in_asyncio(), who_asks, never)
    asyncio.run(middleware({"type": "http", "path": path, "headers": []}, never, send))
    assert [message.get("status") for message in told] == [400, None]


def test_an_identity_that_is_repeated_for_ever_pays_for_it() -> None:
    limited = QuotaWsgi(app, InProcessLimiter(TEN), asker, lambda _: "one identity")
    free = 1 + limits.LIMIT_REPETITIONS_FREE_MAX
    answers = [asked(limited)[0] for _ in range(free + 10)]
    assert answers == ["200 OK"] * (free + 9) + ["429 Too Many Requests"]


@pytest.mark.parametrize("error", [errors.Unavailable, errors.Overloaded, errors.KeyReused])
def test_a_limiter_that_is_away_or_full_is_no_fault_of_the_application(error: Callable[[], Exception]) -> None:
    """And an identity that had another cost elsewhere is none."""

    class Away(InProcessLimiter):
        def check(self, *key: Any) -> Decision:
            if key[4] is None and error is errors.KeyReused:
                return super().check(*key)
            raise error()

    status, headers = asked(QuotaWsgi(app, Away(TEN), asker, lambda _: "identity"))
    is_away = error is not errors.KeyReused
    assert (status, headers.get("Retry-After")) == (("503 Service Unavailable", "1") if is_away else ("200 OK", None))

"""Quotas in front of a WSGI application (Flask, Django): a refused request never reaches it.

The same fields as in front of an ASGI application (``edge/asgi.py``); whoever answers is asked by blocking calls.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from limiter.edge.asgi import NO_KEY, Asker, fields, retry_after_s
from limiter.edge.request_identity import Repetitions
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from limiter.policy.policies import PolicySet
    from limiter.spending.decision import Decision

#: who asks; None for what is limited by nobody
WhoAsks = Callable[["WSGIEnvironment"], Asker | None]
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")
_UNCOUNTED: Final = b"The quota cannot be counted now.\n"
_USED_UP: Final = b"The quota of this caller is used up.\n"


class BlockingLimiter(Protocol):
    """What decides: ``InProcessLimiter``, or ``SyncLimiter``."""

    @property
    def policies(self) -> PolicySet:
        """The policies in use."""

    def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        request_id: str | None = None,
        network: str | None = None,
    ) -> Decision:
        """Decides and charges."""

    def holds_permits(self, tenant: str, user: str, route: str, network: str | None = None, /) -> bool:
        """Whether what is allowed now holds permits until ``release``, or their time."""

    def release(
        self, tenant: str, user: str, route: str, request_id: str, cost: int = 1, network: str | None = None, /
    ) -> int:
        """Ends a request that held permits."""


class QuotaWsgi:
    """Charges a request 1, once for its ``identity_of``; past its quota it is answered 429, 503 without the store.

    A caller who repeats one identity for ever pays for what is past ``LIMIT_REPETITIONS_FREE_MAX``. One whose asker can
    be no key is answered 400.
    Permits of concurrency limits are free when the server closes the answer. Where such a limit governs, every try
    holds permits of its own, and is charged.
    """

    def __init__(
        self,
        app: WSGIApplication,
        limiter: BlockingLimiter,
        who_asks: WhoAsks,
        identity_of: Callable[[WSGIEnvironment], str | None] = lambda _: None,
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._who_asks = who_asks
        self._identity_of = identity_of
        self._repetitions = Repetitions()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Passes the request on, or answers for the application."""
        asker = self._who_asks(environ)
        if asker is None:
            return self._app(environ, start_response)
        tenant, user, route, network = asker
        try:
            permit = secrets.token_hex(16) if self._limiter.holds_permits(tenant, user, route, network) else None
            decided = self._charged(asker, permit, None if permit else self._identity_of(environ))
            policy = self._limiter.policies.by_id(decided.policy_id)
        except errors.InvalidCommand:
            return _answered(HTTPStatus.BAD_REQUEST, NO_KEY, [], start_response)
        except (errors.Unavailable, errors.Overloaded):
            return _answered(HTTPStatus.SERVICE_UNAVAILABLE, _UNCOUNTED, [("Retry-After", "1")], start_response)
        added = [] if policy is None else [*fields(policy, decided).items()]
        if not decided.allowed:
            return _refused(decided, added, start_response)

        def start_with_fields(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, *added], *error)

        if permit is None:
            return self._app(environ, start_with_fields)

        def release() -> None:
            with suppress(errors.Unavailable, errors.Overloaded):  # the limiter does it later, or it ends by its time
                self._limiter.release(tenant, user, route, permit, 1, network)

        try:
            return _Held(self._app(environ, start_with_fields), release)
        except BaseException:
            release()
            raise

    def _charged(self, asker: Asker, permit: str | None, identity: str | None) -> Decision:
        """Under the permit; or once under the identity, while its repetitions look like retries."""
        tenant, user, route, network = asker
        if identity is not None:
            counted = (tenant, user, route, identity)
            with suppress(errors.KeyReused):
                decided = self._limiter.check(tenant, user, route, 1, identity, network)
                if not decided.duplicate:
                    self._repetitions.charged(counted)
                    return decided
                if not self._repetitions.is_one_too_many(counted):
                    return decided
        return self._limiter.check(tenant, user, route, 1, permit, network)


class _Held:
    """An answer that holds permits until the server closes it, as it must however the request ends (PEP 3333)."""

    def __init__(self, answer: Iterable[bytes], release: Callable[[], None]) -> None:
        self._answer = answer
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        """Closes the answer of the application, too."""
        try:
            if (close := getattr(self._answer, "close", None)) is not None:
                close()
        finally:
            self._release()


def _refused(decided: Decision, added: list[tuple[str, str]], start_response: StartResponse) -> list[bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if decided.degraded else HTTPStatus.TOO_MANY_REQUESTS
    wait_s = retry_after_s(decided)
    wait = [] if wait_s is None else [("Retry-After", str(wait_s))]
    return _answered(status, _UNCOUNTED if decided.degraded else _USED_UP, [*wait, *added], start_response)


def _answered(
    status: HTTPStatus, why: bytes, headers: list[tuple[str, str]], start_response: StartResponse
) -> list[bytes]:
    start_response(f"{status.value} {status.phrase}", [_TEXT, *headers])
    return [why]

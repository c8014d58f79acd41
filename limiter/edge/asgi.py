"""Quotas in front of an ASGI application: every request that a policy governs is charged before the application runs.

What the limiter said travels in the fields ``RateLimit-Policy`` and ``RateLimit`` of every answer, refusals included:
the policy that denied, or that has least left. Who asks, and how a refusal looks, the application says. Without
policies nothing is asked and no answer changes. Source: draft-ietf-httpapi-ratelimit-headers-10, RFC 9651 for syntax.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from limiter.edge import handshake
from limiter.edge.request_identity import Repetitions
from schemas import errors
from schemas.limiter.limit_terms import terms

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from limiter.decide.in_process import InAsyncio
    from limiter.decide.limiter import Limiter
    from limiter.spending.decision import Decision
    from schemas.limiter.limit_policy import LimitPolicy

_MS_PER_S: Final = 1_000
_US_PER_S: Final = 1_000_000
_INTEGER_MAX: Final = 10**15 - 1  # of a structured field
NO_KEY: Final = b"What this request names can be no key of a quota.\n"
NOBODY: Final = "-"  # the tenant, or the user, of whom none is known


class Asker(NamedTuple):
    """Whom a request counts for: the parts of a limit key, and the client's address where it is known."""

    tenant: str
    user: str
    route: str
    network: str | None = None


#: who asks; None for what is limited by nobody. It never raises.
WhoAsks = Callable[["Scope"], Awaitable[Asker | None]]
#: the answer to a refused request
Refusal = Callable[["Decision"], "ASGIApp"]
#: what a request is charged under, once however often it is sent; None for one that is charged each time
IdentityOf = Callable[["Scope"], str | None]
#: what a request costs, from 0 to ``LIMIT_COST_MAX``
CostOf = Callable[["Scope"], int]


class QuotaMiddleware:
    """Charges a request, and frees its permits of concurrency limits when the application has answered.

    ``identity_of`` (``request_identity.idempotency_key``) names retries: they consume once. A caller who repeats one
    identity for ever pays for what is past ``LIMIT_REPETITIONS_FREE_MAX``; an identity that had another cost is none.
    Where a concurrency limit governs, every try holds permits of its own, and is charged.
    The handshake of a websocket is a GET that is charged each time, and holds its permits until the connection ends.
    One that is refused is never accepted: 403, or the refusal's own answer where the server has the extension for it.

    Rule: a request that is refused never reaches the application, nor does one whose asker can be no key (400), as of
    a path that is too long. Without the counter store a policy's failure mode decides: the answer then names the policy
    and not what is left of it, which nobody knows. Without ``tells_what_is_left`` only refusals name their policy.
    """

    def __init__(
        self,
        app: ASGIApp,
        limiter: Limiter | InAsyncio,
        who_asks: WhoAsks,
        refusal: Refusal,
        identity_of: IdentityOf = lambda _: None,
        cost_of: CostOf = lambda _: 1,
        *,
        tells_what_is_left: bool = True,
    ) -> None:
        self._tells_what_is_left = tells_what_is_left
        self._app = app
        self._limiter = limiter
        self._who_asks = who_asks
        self._refusal = refusal
        self._identity_of = identity_of
        self._cost_of = cost_of
        self._repetitions = Repetitions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers for the application."""
        asker, is_handshake = None, scope["type"] == handshake.TYPE
        asked = handshake.as_request(scope)
        if asked["type"] == "http" and not self._limiter.policies.is_empty:
            asker = await self._who_asks(asked)
        if asker is None:
            await self._app(scope, receive, send)
            return
        tenant, user, route, network = asker
        cost = self._cost_of(asked)
        try:
            permit = secrets.token_hex(16) if self._limiter.holds_permits(tenant, user, route, network) else None
            is_once = permit is None and not is_handshake  # a connection that is made again is no retry
            decided = await self._charged(asker, cost, permit, self._identity_of(asked) if is_once else None)
        except errors.InvalidCommand:
            await (handshake.denied(_no_key) if is_handshake else _no_key)(scope, receive, send)
            return
        policy = self._limiter.policies.by_id(decided.policy_id)
        is_told = self._tells_what_is_left or not decided.allowed
        named = fields(policy, decided) if policy is not None and is_told else {}
        added = [(name.lower().encode(), value.encode()) for name, value in named.items()]

        async def send_with_fields(message: Message) -> None:
            await send(handshake.with_fields(message, added))

        app = self._app
        if not decided.allowed:
            refusal = self._refusal(decided)
            app = handshake.denied(refusal) if is_handshake else refusal
        try:
            await app(scope, receive, send_with_fields)
        finally:
            if permit is not None and decided.allowed:
                with suppress(errors.Unavailable):  # the limiter does it later, or it ends by its time
                    await self._limiter.release(tenant, user, route, permit, cost, network)

    async def _charged(self, asker: Asker, cost: int, permit: str | None, identity: str | None) -> Decision:
        """Under the permit; or once under the identity, while its repetitions look like retries."""
        tenant, user, route, network = asker
        if identity is not None:
            counted = (tenant, user, route, identity)
            with suppress(errors.KeyReused):
                decided = await self._limiter.check(tenant, user, route, cost, identity, network)
                if not decided.duplicate:
                    self._repetitions.charged(counted)
                    return decided
                if not self._repetitions.is_one_too_many(counted):
                    return decided
        return await self._limiter.check(tenant, user, route, cost, permit, network)


async def _no_key(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(NO_KEY)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": NO_KEY})


def fields(policy: LimitPolicy, decided: Decision) -> dict[str, str]:
    """The fields of an answer that was decided by a policy."""
    if not policy.is_counted:  # there is no quota to tell of
        return {}
    named = {"RateLimit-Policy": f'"{policy.policy_id}"{_quota(policy)}'}
    if not decided.degraded:
        wait_s = retry_after_s(decided)
        until_s = -(-decided.reset_ms // _MS_PER_S) if wait_s is None else wait_s
        left = min(max(decided.remaining, 0), _INTEGER_MAX)
        named["RateLimit"] = f'"{policy.policy_id}";r={left};t={until_s}'
    return named


def retry_after_s(decided: Decision) -> int | None:
    """The least wait of a refusal in whole seconds, rounded up; None when no wait helps, and when it was allowed."""
    if decided.allowed or decided.retry_after_ms < 0:
        return None
    return max(1, -(-decided.retry_after_ms // _MS_PER_S))


def _quota(policy: LimitPolicy) -> str:
    quota = f";q={min(policy.capacity, _INTEGER_MAX)}"
    if policy.algorithm == "concurrency":
        return f'{quota};qu="concurrent-requests"'
    return f"{quota};w={window_s(policy)}"


def window_s(policy: LimitPolicy) -> int:
    """How long the quota lasts: for a bucket the time that fills it, for a calendar its longest window.

    Rounded up: never a higher rate than allowed.
    """
    computed = terms(policy)
    if computed is None:  # publication refuses such a policy
        return 1
    period_us = computed.period * computed.tick_us
    if policy.algorithm == "token_bucket":
        period_us = -(-period_us * computed.capacity // computed.refill)
    return max(1, -(-period_us // _US_PER_S))

"""Quotas of a door: how a refusal looks, and those that hold without any publication.

The latter are counted by each process for itself, so they hold whatever store or stream is away. They keep a flood from
taking a process; what is fair between callers, published policies say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

from ingress import limits
from ingress.http import problems
from limiter.decide.in_process import InProcessLimiter, made_policy
from limiter.edge.asgi import NOBODY, Asker, retry_after_s
from limiter.edge.client_address import client_address
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import Scope

    from limiter.decide.in_process import InAsyncio
    from limiter.spending.decision import Decision
    from schemas.client_network import Network

QUOTA_EXCEEDED: Final = "https://iana.org/assignments/http-problem-types#quota-exceeded"


class Burst(NamedTuple):
    """So many requests at once, and so many a second from then on, of each counter."""

    name: str  # the route that keys of it have, and the policy that answers are told of
    counted_by: str  # "tenant" or "network"
    at_once: int
    per_s: int


class CallersAndStrangers:
    """Counts a request for who proves to be somebody, and by the network for who does not.

    ``name_of`` tells whom a request proves to be, None for who is not counted. It raises what is wrong with its fields.
    """

    def __init__(
        self,
        name_of: Callable[[Scope], Awaitable[str | None]],
        callers: Burst,
        strangers: Burst,
        is_counted: Callable[[str], bool],
        trusted_proxies: Sequence[Network] = (),
    ) -> None:
        """``is_counted``: whether requests of a path are."""
        self._name_of = name_of
        self._callers = callers
        self._strangers = strangers
        self._is_counted = is_counted
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope) -> Asker | None:
        """None for what is not counted, and while nobody can tell who is proven."""
        if not self._is_counted(scope["path"]):
            return None
        try:
            name = await self._name_of(scope)
        except (errors.Unauthenticated, errors.Suspended):
            return Asker(NOBODY, NOBODY, self._strangers.name, client_address(scope, self._trusted_proxies))
        except errors.PlatformError:
            return None  # the route refuses it
        return None if name is None else Asker(name, NOBODY, self._callers.name)


def of_process(*bursts: Burst, now_us: Callable[[], int] | None = None) -> InAsyncio:
    """A limiter of this process alone. Which of them governs a request, its key's route says."""
    policies = [
        made_policy(
            {
                "scope": {"tenant": "*", "user": "*", "route": burst.name},
                "per": [burst.counted_by],
                "algorithm": "token_bucket",
                "capacity": burst.at_once,
                "refill_rate": burst.per_s,
            },
            burst.name,
        )
        for burst in bursts
    ]
    return InProcessLimiter(*policies, keys_max=limits.QUOTA_KEYS_OF_PROCESS_MAX, now_us=now_us).in_asyncio()


def refusal(decided: Decision) -> Response:
    """429 when the quota is used up; 503 when nobody can say so and the policy's failure mode refuses."""
    wait_s = retry_after_s(decided)
    if decided.degraded:
        body = problems.render("unavailable", "The quota cannot be counted now; try again with the same identity.")
        return _response("unavailable", body, wait_s)
    advice = "No wait helps." if wait_s is None else f"Try again with the same identity in {wait_s} s."
    body = problems.render(
        "quota_exceeded",
        f"The quota of this caller is used up. {advice}",
        {"violated-policies": [decided.policy_id]},
        type_=QUOTA_EXCEEDED,
    )
    return _response("quota_exceeded", body, wait_s)


def _response(code: str, body: bytes, wait_s: int | None) -> Response:
    headers = problems.headers_of(code, wait_s)
    return Response(body, problems.row(code).status, headers, problems.MEDIA_TYPE)

"""Quotas on our own API: whom a request counts for.

The tenant is the merchant of the verified token, the user its subject, the route the template of the path, the network
that of the peer, or what trusted proxies say of theirs. Whoever comes without a valid token is a stranger: counted by
the network alone, or a flood of wrong tokens could not be limited. A session of a
page counts for its user, like its token. What proves itself in another way (webhooks, the console) is not counted here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from limiter.edge.asgi import NOBODY, Asker
from limiter.edge.client_address import client_address
from limiter.policy import keys
from schemas import errors
from schemas.limiter.limit_policy import ANY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Scope

    from ingress.http.routing.known_paths import KnownPaths
    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from schemas.client_network import Network
    from schemas.limiter.limit_policy import LimitPolicy

#: What is never limited: how processes are watched, what gateways decide by, and the way out of a wrong policy.
EXEMPT: Final = frozenset(
    {
        "/healthz",
        "/readyz",
        "/.well-known/jwks.json",
        "/v1/policy_snapshots/newest",
        "/v1/policy_snapshots/{digest}",
        "/v1/policies",
        "/v1/policies/{policy_id}",
        "/v1/policies/{policy_id}/withdraw",
    }
)
#: the same of a path, where no route is looked up
_EXEMPT_PATHS: Final = re.compile("|".join(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) for path in sorted(EXEMPT)))
#: tenant and user of whoever has no valid token: policies by network govern them, and no others
STRANGERS: Final = (NOBODY, NOBODY)
#: whose callers have other proofs than a token: a signature, an operator's session
PROVEN_OTHERWISE: Final = ("/v1/webhooks/", "/console")
_PAGES: Final = "/app"  # where a cookie is a proof; elsewhere it is none
_NO_ROUTE: Final = "-"


def is_for_our_api(policy: LimitPolicy) -> bool:
    """Whether we obey it: one for every tenant's every route is meant for gateways in front of other systems."""
    return policy.scope.tenant != ANY or policy.scope.route != ANY


def is_exempt(path: str) -> bool:
    """Whether a path is one of a route that is never limited."""
    return _EXEMPT_PATHS.fullmatch(path) is not None


class Askers:
    """Tells whom a request of this API counts for."""

    def __init__(
        self,
        authenticator: Authenticator,
        known: KnownPaths,
        trusted_proxies: Sequence[Network] = (),
        sessions: Sequence[Callable[[Headers], Caller | None]] = (),
    ) -> None:
        """``sessions`` tell who a cookie is of."""
        self._authenticator = authenticator
        self._known = known
        self._trusted_proxies = trusted_proxies
        self._sessions = sessions

    async def __call__(self, scope: Scope) -> Asker | None:
        """None for what is exempt, for what is proven otherwise, and while nobody can tell who is proven."""
        route = self._template(scope)
        if route in EXEMPT:
            return None
        network = client_address(scope, self._trusted_proxies)
        try:
            caller = await self._authenticator.caller_in(scope)
        except (errors.Unauthenticated, errors.Suspended):
            if route.startswith(PROVEN_OTHERWISE):
                return None
            headers = Headers(scope=scope)
            known = next((found for session in self._sessions if (found := session(headers))), None)
            if known is None or not route.startswith(_PAGES):
                return Asker(*STRANGERS, route, network)
            caller = known
        except errors.PlatformError:
            return None  # the route refuses it
        return Asker(caller.principal, keys.user(caller.subject), route, network)

    def _template(self, scope: Scope) -> str:
        """The template of the route that will answer; of one with another method when that one is to say so."""
        routes = self._known.of(scope["path"])
        takes_it = (route for route in routes if not route.methods or scope["method"] in route.methods)
        route = next(takes_it, routes[0] if routes else None)
        return _NO_ROUTE if route is None else route.path_format

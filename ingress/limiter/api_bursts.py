"""Quotas of our own API that hold without any publication: how much one caller, or one network, asks of one process.

They are far above what a process serves in the long run of anybody but a flood: what is fair between callers, policies
say (``api_limits``). Who has no valid token counts for the network, so wrong tokens are not tried without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from ingress import limits
from ingress.http import registry
from ingress.http.quotas import Burst, CallersAndStrangers
from ingress.limiter.api_limits import PROVEN_OTHERWISE, is_exempt
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Scope

    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from schemas.client_network import Network

_CALLERS: Final = Burst("api_caller", "tenant", limits.BURST_OF_CALLER_MAX, limits.RATE_OF_CALLER)
_STRANGERS: Final = Burst("api_strangers", "network", limits.BURST_OF_STRANGERS_MAX, limits.RATE_OF_STRANGERS)
#: whose callers are counted there, and schemas, which clients of Kafka ask for without a token: they are in memory
_NOT_COUNTED: Final = (*PROVEN_OTHERWISE, *registry.PATHS)
#: of one ingress process
BURSTS: Final = (_CALLERS, _STRANGERS)


def askers(
    authenticator: Authenticator,
    trusted_proxies: Sequence[Network] = (),
    sessions: Sequence[Callable[[Headers], Caller | None]] = (),
) -> CallersAndStrangers:
    """``sessions`` tell who a cookie is of."""

    async def name_of(scope: Scope) -> str:
        try:
            return await authenticator.principal_in(scope)
        except errors.Unauthenticated:
            headers = Headers(scope=scope)
            known = next((found for session in sessions if (found := session(headers))), None)
            if known is None:
                raise
            return known.principal

    return CallersAndStrangers(name_of, *BURSTS, _is_counted, trusted_proxies)


def _is_counted(path: str) -> bool:
    return not is_exempt(path) and not path.startswith(_NOT_COUNTED)

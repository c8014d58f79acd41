"""Whom a request at the vault counts for: its merchant, or the network of who shows no token. Our workers: nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from ingress.http.quotas import Burst
from limiter.edge.asgi import NOBODY, Asker
from limiter.edge.client_address import client_address
from schemas import errors
from vault import limits
from vault.audit import WORKER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import Scope

    from schemas.client_network import Network

_NOT_COUNTED: Final = frozenset(("/healthz", "/readyz"))
_CALLERS: Final = Burst("vault_caller", "tenant", limits.VAULT_BURST_OF_CALLER_MAX, limits.VAULT_RATE_OF_CALLER)
_STRANGERS: Final = Burst(
    "vault_strangers", "network", limits.VAULT_BURST_OF_STRANGERS_MAX, limits.VAULT_RATE_OF_STRANGERS
)
#: of one vault process
BURSTS: Final = (_CALLERS, _STRANGERS)


class Askers:
    """``name_of`` tells who an Authorization field proves to be."""

    def __init__(
        self, name_of: Callable[[str | None], Awaitable[str]], trusted_proxies: Sequence[Network] = ()
    ) -> None:
        self._name_of = name_of
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope) -> Asker | None:
        """None for health, for our workers, and while nobody can tell who is proven."""
        if scope["path"] in _NOT_COUNTED:
            return None
        try:
            name = await self._name_of(Headers(scope=scope).get("authorization"))
        except (errors.Unauthenticated, errors.Suspended):
            return Asker(NOBODY, NOBODY, _STRANGERS.name, client_address(scope, self._trusted_proxies))
        except errors.PlatformError:
            return None  # the route refuses it
        return None if name == WORKER else Asker(name, NOBODY, _CALLERS.name)

"""Whom a request at the vault counts for: its merchant, or the network of who shows no token. Our workers: nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http.quotas import Burst, CallersAndStrangers
from vault import limits
from vault.audit import OUR_WORKERS

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


def askers(name_of: Callable[[Scope], Awaitable[str]], trusted_proxies: Sequence[Network] = ()) -> CallersAndStrangers:
    """``name_of`` tells whom the token of a request proves."""

    async def counted(scope: Scope) -> str | None:
        name = await name_of(scope)
        return None if name == OUR_WORKERS else name

    return CallersAndStrangers(counted, *BURSTS, lambda path: path not in _NOT_COUNTED, trusted_proxies)

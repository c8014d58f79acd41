"""How much one network may tell as a processor: counted before anything of a request is read or verified.

A refused event was not acknowledged, so its processor tells it again. The bound is far above what a processor sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http.quotas import Burst
from limiter.edge.asgi import NOBODY, Asker
from limiter.edge.client_address import client_address
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

    from schemas.client_network import Network

DOOR: Final = "/v1/webhooks/"
#: of one ingress process
BURST: Final = Burst("webhooks", "network", limits.WEBHOOK_BURST_MAX, limits.WEBHOOK_RATE)


class Tellers:
    """Tells whom a webhook counts for: the network that it comes from."""

    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope) -> Asker | None:
        """None for everything but webhooks."""
        if not scope["path"].startswith(DOOR):
            return None
        return Asker(NOBODY, NOBODY, BURST.name, client_address(scope, self._trusted_proxies))

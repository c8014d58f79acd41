"""The rate limiter in the ingress: policies published and read, usage of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http_service import HttpService, Json
from ingress.limiter import openapi, routes
from ingress.limiter.admission import Reach
from ingress.limiter.config import LimiterConfig
from ingress.limiter.quota_policies import QuotaPolicies
from limiter.store.sharded_store import ShardedStore
from schemas.limiter.service import SERVICE

if TYPE_CHECKING:
    from ingress.http_service import Platform


class LimiterHttp(HttpService):
    """Without a counter store usage is not known; policies are."""

    declared = SERVICE
    routers = (routes.router,)

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        config, url = platform.parts.get(LimiterConfig), platform.config.redis_url
        self.admission = platform.parts.add(Reach(merchants_are_bound=config.merchants_are_bound))
        self._counters = None if url is None else ShardedStore(url, encrypted=config.encrypted)
        self._policies = platform.parts.add(QuotaPolicies(platform.store, platform.cursors, self._counters))

    def drain(self) -> None:
        """Whoever waits for a newer snapshot is told that there is none."""
        self._policies.drain()

    async def close(self) -> None:
        """Disconnects from the counter store."""
        if self._counters is not None:
            await self._counters.close()

    @staticmethod
    def paths() -> Json:
        """What is read of policies and usage."""
        return openapi.paths()

    @staticmethod
    def components() -> Json:
        """Policies, usage."""
        return openapi.components()


HTTP: Final = LimiterHttp

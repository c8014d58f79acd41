"""The multi-tenant platform in the ingress: its parts, wired in one place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ingress.http.pages import NewestFirst
from ingress.http_service import HttpService, Json
from ingress.tenancy import (
    billing_routes,
    desk_openapi,
    isolation_routes,
    openapi,
    support_routes,
    tenant_routes,
    usage_routes,
)
from ingress.tenancy.admission import TenancyAdmission
from ingress.tenancy.billing import Billing
from ingress.tenancy.support import SupportAccess
from ingress.tenancy.tenants import Tenants
from ingress.tenancy.usage import Usage
from ingress.tenancy.usage_producer import UsageProducer
from schemas.tenancy.service import SERVICE
from sinks.tenancy.seals import RootKeys

if TYPE_CHECKING:
    from ingress.http_service import Platform


class TenancyHttp(HttpService):
    """Tenants, resources, quotas."""

    declared = SERVICE
    routers = (
        tenant_routes.router,
        usage_routes.router,
        billing_routes.router,
        support_routes.router,
        isolation_routes.router,
    )
    shows_events = True

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        tenants = platform.parts.add(Tenants(platform.store, RootKeys(platform.config.tenancy_secrets)))
        platform.parts.add(NewestFirst(platform.store, platform.cursors))
        self.admission = TenancyAdmission(tenants)
        config = platform.config
        platform.parts.add(Usage(platform.store, platform.cursors))
        platform.parts.add(Billing(platform.store, platform.cursors))
        platform.parts.add(SupportAccess(platform.store, platform.cursors, config.support_issuer))
        self._usage = platform.parts.add(UsageProducer(config.kafka, f"millrace-usage-{config.instance}"))

    async def close(self) -> None:
        """Sends what was taken of usage, and disconnects."""
        await asyncio.to_thread(self._usage.close)

    @staticmethod
    def paths() -> Json:
        """What is read of tenants and resources."""
        return openapi.paths() | desk_openapi.paths()

    @staticmethod
    def components() -> Json:
        """Tenants, resources, quotas."""
        return openapi.components() | desk_openapi.components()


HTTP: Final = TenancyHttp

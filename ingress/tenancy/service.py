"""The multi-tenant platform in the ingress: its parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.middleware import Middleware

from ingress.http.pages import NewestFirst
from ingress.http_service import HttpService, Json
from ingress.tenancy import (
    desk,
    desk_openapi,
    desk_schemas,
    life_routes,
    openapi,
    placement_routes,
    resource_routes,
    tenant_routes,
)
from ingress.tenancy.admission import TenancyAdmission
from ingress.tenancy.config import TenancyConfig
from ingress.tenancy.console.declared import CONSOLE
from ingress.tenancy.database_costs import DatabaseCosts
from ingress.tenancy.life_routes import Lives
from ingress.tenancy.quotas import Quotas
from ingress.tenancy.resources import Resources
from ingress.tenancy.safe_mode import SafeMode
from ingress.tenancy.stores import TenantStores
from ingress.tenancy.support.calls import SupportCalls
from ingress.tenancy.support.gate import SupportGate
from ingress.tenancy.tenants import Tenants
from schemas.tenancy.service import SERVICE
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.root_keys import RootKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http_service import Platform
    from ingress.identity.auth import Authenticator


class TenancyHttp(HttpService):
    """Tenants, resources, quotas."""

    declared = SERVICE
    routers = (tenant_routes.router, placement_routes.router, resource_routes.router, life_routes.router, *desk.ROUTERS)
    shows_events = True
    console = CONSOLE

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        store, add, config = platform.store, platform.parts.add, platform.parts.get(TenancyConfig)
        safe_mode = add(SafeMode(store, platform.audited_store))
        root_keys, instance = RootKeys(config.secrets), platform.config.instance
        tenants = add(Tenants(store, platform.audited_store, root_keys, safe_mode, instance))
        self._lease = tenants.lease
        self._costs = DatabaseCosts(store, instance)
        store.heard, store.turn = self._costs.heard, self._costs.turn
        add(NewestFirst(store, platform.cursors))
        self._stores = TenantStores(store, platform.config.postgres_dsn, Contexts(config.secrets))
        self._resources = add(Resources(store, self._stores, tenants, platform.cursors))
        add(Quotas(store))
        add(Lives(store, tenants, platform.cursors))
        add(config.certificate_keys)
        self.admission = TenancyAdmission(tenants, safe_mode)
        self._desk = desk.Desk(platform)
        self._support_calls = SupportCalls(platform.audited_store)

    def middleware(self, authenticator: Authenticator) -> Sequence[Middleware]:
        """Calls under a support grant are audited, of whatever service they ask."""
        return (Middleware(SupportGate, authenticator=authenticator, calls=self._support_calls),)

    async def start(self) -> None:
        """Begins to keep the lease on keys of tenants, and to judge what they cost."""
        self._lease.start()
        self._costs.start()

    async def close(self) -> None:
        """Gives the lease back, and disconnects from dedicated databases and Kafka."""
        await self._costs.close()
        await self._support_calls.close()
        await self._desk.close()
        await self._resources.close()
        await self._stores.close()
        await self._lease.close()

    @staticmethod
    def paths() -> Json:
        """What is read of tenants and resources."""
        return openapi.paths() | desk_openapi.paths()

    @staticmethod
    def components() -> Json:
        """Tenants, resources, quotas."""
        return openapi.components() | desk_schemas.components()


HTTP: Final = TenancyHttp

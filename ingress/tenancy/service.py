"""The multi-tenant platform in the ingress: its parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.http.pages import NewestFirst
from ingress.http_service import HttpService, Json
from ingress.tenancy import openapi, tenant_routes
from ingress.tenancy.admission import TenancyAdmission
from ingress.tenancy.tenants import Tenants
from schemas.tenancy.service import SERVICE
from sinks.tenancy.seals import RootKeys

if TYPE_CHECKING:
    from ingress.http_service import Platform


class TenancyHttp(HttpService):
    """Tenants, resources, quotas."""

    declared = SERVICE
    routers = (tenant_routes.router,)
    shows_events = True

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        tenants = platform.parts.add(Tenants(platform.store, RootKeys(platform.config.tenancy_secrets)))
        platform.parts.add(NewestFirst(platform.store, platform.cursors))
        self.admission = TenancyAdmission(tenants)

    @staticmethod
    def paths() -> Json:
        """What is read of tenants and resources."""
        return openapi.paths()

    @staticmethod
    def components() -> Json:
        """Tenants, resources, quotas."""
        return openapi.components()


HTTP: Final = TenancyHttp

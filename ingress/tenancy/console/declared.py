"""The places of tenants in the console."""

from __future__ import annotations

from typing import Final

from ingress.console.declared import ConsolePages, place
from ingress.tenancy.console import tenant_routes

CONSOLE: Final = ConsolePages(
    package="ingress.tenancy.console",
    routers=(tenant_routes.router,),
    places=(
        place("t", "/console/tenants", "Tenants"),
        place("i", "/console/billing", "Billing runs"),
        place("s", "/console/grants", "Support grants"),
    ),
)

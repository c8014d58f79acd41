"""The places of tenants in the console."""

from __future__ import annotations

from typing import Final

from ingress.console.declared import ConsolePages, place
from ingress.tenancy.console import refused_usage, tenant_boards, tenant_decisions, tenant_routes

CONSOLE: Final = ConsolePages(
    package="ingress.tenancy.console",
    routers=(tenant_routes.router, tenant_boards.router, tenant_decisions.router, refused_usage.router),
    places=(
        place("t", "/console/tenants", "Tenants"),
        place("i", "/console/billing", "Billing runs"),
        place("s", "/console/grants", "Support grants"),
        place("c", "/console/capacity", "Capacity"),
        place("n", "/console/noisy", "Noisy callers"),
        place("u", "/console/refused_usage", "Refused usage"),
        place("x", "/console/isolation", "Isolation"),
    ),
)

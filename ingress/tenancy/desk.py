"""Usage, billing, support access and isolation in the ingress: their routes, and their parts wired in one place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ingress.tenancy import isolation_routes
from ingress.tenancy.billing import invoice_routes, routes
from ingress.tenancy.billing.entitlements import Entitlements
from ingress.tenancy.billing.invoices import Billing
from ingress.tenancy.config import TenancyConfig
from ingress.tenancy.support import routes as support_routes
from ingress.tenancy.support.access import SupportAccess
from ingress.tenancy.usage import routes as usage_routes
from ingress.tenancy.usage.producer import UsageProducer
from ingress.tenancy.usage.questions import Questions
from ingress.tenancy.usage.sums import Usage

if TYPE_CHECKING:
    from ingress.http_service import Platform

ROUTERS: Final = (
    usage_routes.router,
    routes.router,
    invoice_routes.router,
    support_routes.router,
    isolation_routes.router,
)


class Desk:
    """The parts of one process."""

    def __init__(self, platform: Platform) -> None:
        add, config = platform.parts.add, platform.config
        questions = Questions()
        add(Usage(platform.store, platform.cursors, questions))
        add(Billing(platform.store, platform.cursors, questions))
        add(Entitlements(platform.store, questions))
        add(SupportAccess(platform.store, platform.cursors, platform.parts.get(TenancyConfig).support_issuer))
        self._usage = add(UsageProducer(config.kafka, f"millrace-usage-{config.instance}"))

    async def close(self) -> None:
        """Sends what was taken of usage, and disconnects."""
        await asyncio.to_thread(self._usage.close)

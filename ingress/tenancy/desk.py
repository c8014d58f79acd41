"""Usage, billing, support access and isolation in the ingress: their routes, and their parts wired in one place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ingress.tenancy import billing_routes, invoice_routes, isolation_routes, support_routes, usage_routes
from ingress.tenancy.billing import Billing
from ingress.tenancy.config import TenancyConfig
from ingress.tenancy.entitlements import Entitlements
from ingress.tenancy.questions import Questions
from ingress.tenancy.support import SupportAccess
from ingress.tenancy.usage import Usage
from ingress.tenancy.usage_producer import UsageProducer

if TYPE_CHECKING:
    from ingress.http_service import Platform

ROUTERS: Final = (
    usage_routes.router,
    billing_routes.router,
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

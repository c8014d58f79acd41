"""Payments in the ingress: their parts, wired in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.middleware import Middleware

from ingress.http import quotas
from ingress.http_service import HttpService, Json
from ingress.payments import dry_run, intent_routes, money_routes, processor_routes
from ingress.payments.active_policies import ActivePolicies
from ingress.payments.admission import PaymentsAdmission
from ingress.payments.config import PaymentsConfig
from ingress.payments.console.declared import CONSOLE
from ingress.payments.console.totals import Totals
from ingress.payments.dry_run import DryRuns
from ingress.payments.expansion import Expansions
from ingress.payments.merchants import account_routes, endpoint_routes, report_routes, signing_key_routes
from ingress.payments.merchants.accounts import Accounts
from ingress.payments.merchants.balances import Balances
from ingress.payments.merchants.destinations import Destinations
from ingress.payments.merchants.endpoints import Endpoints
from ingress.payments.merchants.fee_terms import FeePolicies
from ingress.payments.merchants.reports import Reports
from ingress.payments.openapi import document
from ingress.payments.payment_methods import PaymentMethods
from ingress.payments.processors import Processors
from ingress.payments.repair import closing_routes, outcome_routes, repair_routes
from ingress.payments.repair import money_routes as by_hand_routes
from ingress.payments.repair.closings import Closings
from ingress.payments.repair.money_proposals import MoneyProposals
from ingress.payments.repair.outcomes import Outcomes
from ingress.payments.repair.repairs import Repairs
from ingress.payments.resources import Collections
from ingress.payments.risk import policy_routes, risk_routes
from ingress.payments.risk.assessments import Assessments
from ingress.payments.risk.policies import PolicyVersions
from ingress.payments.risk.risk_signals import RiskSignals, velocity_epochs
from ingress.payments.webhooks import routes as webhook_routes
from ingress.payments.webhooks.gateway import WebhookGateway
from ingress.payments.webhooks.quotas import BURST, Tellers
from limiter.edge.asgi import QuotaMiddleware
from schemas.payments import rendering
from schemas.payments.service import SERVICE
from sinks.redis.velocity import VelocityCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http_service import Platform
    from ingress.identity.auth import Authenticator


class PaymentsHttp(HttpService):
    """Payments, merchants, and what operators decide about them."""

    declared = SERVICE
    routers = (
        intent_routes.router,
        money_routes.router,
        processor_routes.router,
        account_routes.router,
        report_routes.router,
        endpoint_routes.router,
        signing_key_routes.router,
        repair_routes.router,
        closing_routes.router,
        outcome_routes.router,
        by_hand_routes.router,
        policy_routes.router,
        risk_routes.router,
        webhook_routes.router,
    )
    shows_events = True
    console = CONSOLE
    forecasts = frozenset(dry_run.OPERATIONS)

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        store, audited, add = platform.store, platform.audited_store, platform.parts.add
        dsn, redis_url = platform.config.postgres_dsn, platform.config.redis_url
        config = platform.parts.get(PaymentsConfig)
        counters = None if redis_url is None else VelocityCounters(redis_url, velocity_epochs(audited))
        methods = PaymentMethods(store)
        self._policies = add(ActivePolicies(store))
        self._signals = RiskSignals(self._policies, store, counters)
        dry_runs = DryRuns(store, platform.stored, methods, config.processors)
        self.admission = PaymentsAdmission(self._policies, methods, self._signals, dry_runs)
        self._collections = add(Collections.over(store, platform.cursors, platform.arrivals))
        add(Expansions(store, self._collections.intents, self._collections.refunds, self._collections.disputes))
        add(Accounts(store, add(Balances(store))))
        add(Destinations(store))
        add(Reports(store, platform.cursors))
        add(Processors(store, config.processors))
        for proposals in (Closings, Outcomes, MoneyProposals, Repairs):
            add(proposals(audited, platform.exchange))
        add(Assessments(store))
        add(PolicyVersions(audited, config.processors))
        add(FeePolicies(store))
        add(Totals())
        self._endpoints = add(
            Endpoints(
                dsn,
                platform.cursors,
                config.webhook_secret_keys,
                loopback=config.merchant_webhooks_loopback,
            )
        )
        self._trusted_proxies = platform.config.trusted_proxies
        self._webhooks = add(WebhookGateway(dsn, config.webhook_secrets, platform.denials.require_clock))

    def middleware(self, authenticator: Authenticator) -> Sequence[Middleware]:
        """What one network may tell as a processor is bounded."""
        del authenticator
        tellers = Tellers(self._trusted_proxies)
        layer = Middleware(QuotaMiddleware, limiter=quotas.of_process(BURST), who_asks=tellers, refusal=quotas.refusal)
        return (layer,)

    async def start(self) -> None:
        """Opens what has connections of its own, and begins to follow the published policies."""
        await self._webhooks.open()
        await self._endpoints.open()
        self._policies.start()

    def require_ready(self) -> None:
        """Raises Unavailable until the published policies were read once."""
        self._policies.require_read()

    def drain(self) -> None:
        """Ends every long poll."""
        self._collections.drain()

    async def close(self) -> None:
        """Disconnects."""
        await self._policies.close()
        await self._signals.close()
        await self._webhooks.close()
        await self._endpoints.close()

    @staticmethod
    def event_body(body: Json) -> Json:
        """Its parts as they look in answers."""
        return rendering.payment_event_body(body)

    @staticmethod
    def paths() -> Json:
        """Reads, decisions of operators, webhooks."""
        return document.paths()

    @staticmethod
    def components() -> Json:
        """Everything that these and the commands of payments name."""
        return document.components()


HTTP: Final = PaymentsHttp

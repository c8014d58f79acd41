"""One ingress process: its parts, wired in one place, and their start, drain and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from ingress.commands.accepted import AcceptedRequests
from ingress.commands.commands import Commands
from ingress.commands.events import Events, EventStreams
from ingress.commands.exchange import Exchange
from ingress.commands.operations import OperationLog
from ingress.commands.stored import StoredResults
from ingress.console.state import Console
from ingress.http.cursors import Cursors
from ingress.http.store import Store
from ingress.identity.auth import Authenticator, Caller
from ingress.identity.jwks import KeySource
from ingress.identity.known_keys import KnownKeys
from ingress.identity.signed_requests import SignedRequests
from ingress.identity.signing_keys import SigningKeys
from ingress.limiter.quota_policies import QuotaPolicies
from ingress.operators.audit import Audit
from ingress.operators.cases import Cases
from ingress.operators.checkpoints import Checkpoints
from ingress.operators.parked import ParkedCommands
from ingress.payments.active_policies import ActivePolicies
from ingress.payments.dry_run import DryRuns
from ingress.payments.expansion import Expansions
from ingress.payments.merchants.accounts import Accounts
from ingress.payments.merchants.balances import Balances
from ingress.payments.merchants.endpoints import Endpoints
from ingress.payments.merchants.fee_terms import FeePolicies
from ingress.payments.merchants.reports import Reports
from ingress.payments.payment_methods import PaymentMethods
from ingress.payments.processors import Processors
from ingress.payments.repair.closings import Closings
from ingress.payments.repair.outcomes import Outcomes
from ingress.payments.repair.repairs import Repairs
from ingress.payments.resources import DISPUTES, INTENTS, PAYOUTS, REFUNDS, Resources
from ingress.payments.risk.assessments import Assessments
from ingress.payments.risk.policies import PolicyVersions
from ingress.payments.risk.risk_signals import RiskSignals
from ingress.payments.webhooks.gateway import WebhookGateway
from limiter.store.sharded_store import ShardedStore
from schemas import errors, limits
from schemas.payments.webhook_secret import WebhookSecretKeys
from sinks.redis.velocity import VelocityCounters

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

    from limiter.decide.limiter import Limiter
    from schemas.client_network import Network
    from sinks.kafka.connection import KafkaConnection

_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Plain values of one process; the wiring that reads settings is compose/services/ingress.py."""

    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)  # of the role millrace_ingress
    console_dsn: str = field(repr=False)  # of the role millrace_console
    redis_url: str | None = field(default=None, repr=False)  # None: velocity and live usage are never known
    processors: tuple[str, ...] = ()  # that a routing policy may name
    instance: int
    jwks: str  # a file or an http(s) address
    jwks_served: Path | None  # the development issuer's file, shown at /.well-known/jwks.json
    issuer: str
    audience: str
    cursor_key: bytes = field(repr=False)
    webhook_secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)  # by processor, all active
    #: what secrets of merchants' endpoints are sealed with
    webhook_secret_keys: WebhookSecretKeys = field(default_factory=WebhookSecretKeys, repr=False)
    limiter: Limiter | None = None  # of this API; None: nobody is limited
    trusted_proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed
    merchant_webhooks_loopback: bool = False  # development: endpoints of merchants on this machine, without TLS


class Ingress:
    """Stateless but for what it waits for: any process can answer any call."""

    def __init__(self, config: IngressConfig) -> None:
        self.config = config
        self.store = Store(config.postgres_dsn)
        self.keys = KeySource(config.jwks)
        self.authenticator = Authenticator(self.keys, config.issuer, config.audience)
        self.cursors = Cursors(config.cursor_key)
        self.stored = StoredResults(self.store)
        self.exchange = Exchange(config.kafka, config.instance, self.stored)
        self.accepted = AcceptedRequests(self.store)
        self.active_policies = ActivePolicies(self.store)
        counters = None if config.redis_url is None else VelocityCounters(config.redis_url)
        self.risk_signals = RiskSignals(self.active_policies, self.store, counters)
        payment_methods = PaymentMethods(self.store)
        self._audited_store = Store(config.postgres_dsn, synchronous_commit="on")
        known_keys = KnownKeys(self.store)
        self.signed_requests = SignedRequests(known_keys, self._audited_store)
        self.signing_keys = SigningKeys(self._audited_store, self.cursors, known_keys)
        self.commands = Commands(
            self.stored,
            self.exchange,
            self.accepted,
            payment_methods,
            self.risk_signals,
            self.signed_requests,
            self.active_policies,
        )
        self.dry_runs = DryRuns(self.store, self.stored, payment_methods, config.processors)
        self.intents = Resources(self.store, self.cursors, INTENTS)
        self.refunds = Resources(self.store, self.cursors, REFUNDS)
        self.disputes = Resources(self.store, self.cursors, DISPUTES)
        self.payouts = Resources(self.store, self.cursors, PAYOUTS)
        self.expansions = Expansions(self.store, self.intents, self.refunds, self.disputes)
        self.balances = Balances(self.store)
        self.accounts = Accounts(self.store, self.balances)
        self.reports = Reports(self.store, self.cursors)
        self.cases = Cases(self.store, self.cursors)
        self.processors = Processors(self.store, config.processors)
        self.audit = Audit(self._audited_store, self.authenticator)
        self.closings = Closings(self._audited_store)
        self.outcomes = Outcomes(self._audited_store, self.exchange)
        self.repairs = Repairs(self._audited_store, self.exchange)
        self.parked = ParkedCommands(self._audited_store, config.kafka)
        self.assessments = Assessments(self.store)
        self.policies = PolicyVersions(self._audited_store, config.processors)
        self.fee_policies = FeePolicies(self.store)
        self.console = Console(config.console_dsn, config.cursor_key, config.kafka)
        self.operations = OperationLog(self.store, self.accepted)
        self.checkpoints = Checkpoints(self.store, self.cursors)
        self.events = Events(self.store, self.cursors)
        self.streams = EventStreams(self.events, self.store)
        self.endpoints = Endpoints(
            config.postgres_dsn,
            self.cursors,
            config.webhook_secret_keys,
            loopback=config.merchant_webhooks_loopback,
        )
        self.webhooks = WebhookGateway(config.postgres_dsn, config.webhook_secrets)
        self._counters = None if config.redis_url is None else ShardedStore(config.redis_url)
        self.quota_policies = QuotaPolicies(self.store, self.cursors, self._counters)
        self._cleaner: asyncio.Task[None] | None = None
        self._ready: tuple[float, str | None] = (float("-inf"), None)

    async def start(self) -> None:
        """Connects in the background; ``why_not_ready`` tells when it may serve."""
        await self.store.open()
        await self._audited_store.open()
        await self.console.open()
        await self.webhooks.open()
        await self.endpoints.open()
        await self.keys.refresh()
        self.exchange.start()
        self.active_policies.start()
        self._cleaner = asyncio.get_running_loop().create_task(self._clean())

    def drain(self) -> None:
        """Ends streams and waits, so that every open call is answered now."""
        self.streams.close()
        self.intents.drain()
        self.refunds.drain()
        self.payouts.drain()
        self.exchange.drain()

    async def close(self) -> None:
        """Flushes and disconnects. Call it when no request is open."""
        if self._cleaner is not None:
            self._cleaner.cancel()
        self.streams.close()
        await self.exchange.close()
        await self.active_policies.close()
        await self.risk_signals.close()
        await self.webhooks.close()
        await self.endpoints.close()
        if self._counters is not None:
            await self._counters.close()
        await self.console.close()
        await self._audited_store.close()
        await self.store.close()

    async def caller(self, request: Request, scope: str) -> Caller:
        """The verified caller, who has the scope. Raises Unauthenticated or Forbidden."""
        caller = await self.authenticator.caller(request.headers.get("authorization"))
        caller.require(scope)
        return caller

    async def why_not_ready(self) -> str | None:
        """None when calls can be served; asked often, so an answer holds for a moment."""
        at, reason = self._ready
        if time.monotonic() - at > limits.READY_CACHE_MS / _MS:
            reason = await self._probe()
            self._ready = (time.monotonic(), reason)
        return reason

    async def _probe(self) -> str | None:
        try:
            async with asyncio.timeout(limits.READY_PROBE_TIMEOUT_S):
                await self.store.rows("alive", {})
        except (TimeoutError, errors.Unavailable):
            return "Postgres is away"
        try:
            self.keys.require_fresh()
            await self.exchange.check()
            self.active_policies.require_read()
        except errors.Unavailable as error:
            return error.public
        return None

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(limits.ACCEPTED_CLEANING_INTERVAL_S)
            try:
                await self.accepted.clean()
            except errors.Unavailable as error:
                structlog.get_logger().warning("accepted_requests_not_cleaned", cause=error.public)

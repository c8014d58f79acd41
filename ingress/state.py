"""One ingress process: its parts, wired in one place, and their start, drain and end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from ingress import limits
from ingress.commands.accepted import AcceptedRequests
from ingress.commands.admission import Admissions
from ingress.commands.arrivals import Arrivals
from ingress.commands.commands import Commands
from ingress.commands.disk_room import DiskRoom
from ingress.commands.events import EventFeed, EventFeeds, Events, EventStreams
from ingress.commands.exchange import Exchange
from ingress.commands.operations import OperationLog
from ingress.commands.stored import StoredResults
from ingress.console.state import Console
from ingress.http.cursors import Cursors
from ingress.http.health import Readiness
from ingress.http.ownership import Ownership
from ingress.http.parts import Parts
from ingress.http.store import Store
from ingress.http_service import Platform
from ingress.identity.auth import Authenticator
from ingress.identity.authorization_code import AuthorizationCode
from ingress.identity.denials import Denials
from ingress.identity.known_keys import KnownKeys
from ingress.identity.signed_requests import SignedRequests
from ingress.identity.signing_keys import SigningKeys
from ingress.operators.access_denials import AccessDenials
from ingress.operators.audit import Audit
from ingress.operators.cases import Cases
from ingress.operators.checkpoints import Checkpoints
from ingress.operators.parked import ParkedCommands
from ingress.services import CONSOLE_PAGES, HTTP_SERVICES
from schemas import errors, services

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from ingress.config import IngressConfig
    from ingress.http_service import HttpService
    from ingress.identity.caller import Caller


class Ingress:
    """Stateless but for what it waits for: any process can answer any call."""

    def __init__(self, config: IngressConfig) -> None:
        self.config = config
        self.parts = Parts()
        add = self.parts.add
        add(config)
        for one in config.of_services:
            add(one)
        self._store = Store(config.postgres_dsn)
        self._audited_store = Store(config.postgres_dsn, synchronous_commit="on")
        self.denials = add(Denials(self._store))
        self.authenticator = add(Authenticator.of(config.trusted, self.denials))
        add(AuthorizationCode(config.sign_in, self.denials))
        cursors = Cursors(config.cursor_key)
        stored = StoredResults(self._store)
        self._exchange = Exchange(config.kafka, config.instance, stored)
        partitions = {service.events_topic: service.partitions for service in services.SERVICES}
        self._arrivals = Arrivals(config.kafka, f"millrace-ingress-{config.instance}", partitions)
        self._accepted = AcceptedRequests(self._store)
        known_keys = KnownKeys(self._store)
        signed_requests = add(SignedRequests(known_keys, self._audited_store))
        add(SigningKeys(self._audited_store, cursors, known_keys))
        platform = Platform(
            config=config,
            parts=self.parts,
            store=self._store,
            audited_store=self._audited_store,
            cursors=cursors,
            stored=stored,
            exchange=self._exchange,
            arrivals=self._arrivals,
            denials=self.denials,
        )
        self.services = [service(platform) for service in HTTP_SERVICES]
        by_service = {service.declared.name: service.admission for service in self.services}
        admissions = add(Admissions(by_service, DiskRoom(config.servers_disk)))
        add(Commands(stored, self._exchange, self._accepted, signed_requests, admissions))
        add(OperationLog(self._store, self._accepted, admissions))
        self._feeds = add(EventFeeds([feed for service in HTTP_SERVICES if (feed := self._feed(service, cursors))]))
        add(Cases(self._store, cursors))
        add(Checkpoints(self._store, cursors))
        add(AccessDenials(self._audited_store))
        add(ParkedCommands(self._audited_store, config.kafka))
        self.audit = add(Audit(self._audited_store, self.authenticator))
        self._console = add(Console(config.console_dsn, config.cursor_key, config.kafka, CONSOLE_PAGES, self.denials))
        self._readiness = add(Readiness(self._probe))
        add(Ownership(config.kafka, self._store))
        self._cleaner: asyncio.Task[None] | None = None

    def _feed(self, service: type[HttpService], cursors: Cursors) -> EventFeed | None:
        if not service.shows_events:
            return None
        events = Events(self._store, cursors, service.declared, service.event_body)
        return EventFeed(events, EventStreams(events, self._store, self._arrivals))

    async def start(self) -> None:
        """Connects in the background; ``why_not_ready`` tells when it may serve."""
        await self._store.open()
        await self._audited_store.open()
        await self._console.open()
        for service in self.services:
            await service.start()
        self.denials.start()
        await self.authenticator.refresh()
        self._exchange.start()
        self._cleaner = asyncio.get_running_loop().create_task(self._clean())

    def drain(self) -> None:
        """Ends streams and waits, so that every open call is answered now."""
        self._feeds.close()
        for service in self.services:
            service.drain()
        self._exchange.drain()

    async def close(self) -> None:
        """Flushes and disconnects. Call it when no request is open."""
        if self._cleaner is not None:
            self._cleaner.cancel()
        self.denials.close()
        self._feeds.close()
        await asyncio.to_thread(self._arrivals.close)
        await self._exchange.close()
        for service in self.services:
            await service.close()
        await self._console.close()
        await self.audit.close()
        await self._audited_store.close()
        await self._store.close()

    def caller_at_console(self, headers: Headers) -> Caller | None:
        """Who comes without a token, by a session of the console."""
        return self._console.caller_of(headers)

    async def why_not_ready(self) -> str | None:
        """None when calls can be served."""
        return await self._readiness.why_not()

    async def _probe(self) -> str | None:
        try:
            async with asyncio.timeout(limits.READY_PROBE_TIMEOUT_S):
                await self._store.rows("alive", {})
        except (TimeoutError, errors.Unavailable):
            return "Postgres is away"
        try:
            self.authenticator.require_fresh()
            await self._exchange.check()
            for service in self.services:
                service.require_ready()
        except errors.Unavailable as error:
            return error.public
        return None

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(limits.ACCEPTED_CLEANING_INTERVAL_S)
            try:
                await self._accepted.clean()
            except errors.Unavailable as error:
                structlog.get_logger().warning("accepted_requests_not_cleaned", cause=error.public)

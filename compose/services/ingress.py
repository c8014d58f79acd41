"""Wires one ingress process. Several listen on the same port; each hears its results on a partition of its own."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import uvloop

from compose.services.limiting import OwnSnapshots, api_limiter
from compose.services.ops import asked_on, serve_ops, turning
from compose.stack.ports import LOOPBACK
from dataflows.owner.collector import collect_rarely
from ingress.config import IngressConfig
from ingress.identity.issuer import KeyFolder
from ingress.limiter.config import LimiterConfig
from ingress.limiter.quota_policies import QuotaPolicies
from ingress.payments.config import PaymentsConfig
from ingress.server import serve
from ingress.social.config import SocialConfig
from ingress.state import Ingress
from ingress.tenancy.config import TenancyConfig
from schemas.client_network import client_network
from schemas.senders import INGRESS, OPERATORS, PARKED, PUBLISHER, REPAIRS
from sinks.certificates import CertificateKeys
from sinks.tenancy import secrets_file

if TYPE_CHECKING:
    from pathlib import Path

    from compose.settings.settings import Settings
    from limiter.decide.limiter import Limiter


def run(settings: Settings, instance: int) -> None:
    """Serves until SIGTERM, then drains."""
    uvloop.run(_serve(settings, instance))


async def _serve(settings: Settings, instance: int) -> None:
    keys = KeyFolder(settings.the_home().path / "keys")
    keys.ensure()
    name = f"ingress-{socket.gethostname()}-{os.getpid()}-{instance}"
    snapshots = OwnSnapshots()
    async with api_limiter(settings, name, instance, snapshots) as limiter:
        await _serve_limited(settings, keys, instance, limiter, snapshots)


async def _serve_limited(
    settings: Settings, keys: KeyFolder, instance: int, limiter: Limiter, snapshots: OwnSnapshots
) -> None:
    addresses = settings.addresses()
    config = IngressConfig(
        kafka=settings.kafka_of("ingress", INGRESS, PUBLISHER, OPERATORS, REPAIRS, PARKED),
        postgres_dsn=addresses.postgres_dsns["millrace_ingress"],
        console_dsn=addresses.postgres_dsns["millrace_console"],
        redis_url=addresses.redis_url_of("ingress"),
        instance=instance,
        trusted=settings.trusted(keys.path),
        sign_in=settings.sign_in(),
        jwks_served=keys.jwks if settings.issuer is None else None,
        cursor_key=keys.cursor_key(),
        servers_disk=settings.the_home().path if settings.keeps_data_here() else None,
        limiter=limiter,
        trusted_proxies=tuple(client_network(text) for text in settings.trusted_proxies),
        of_services=_of_services(settings, keys.path),
    )
    loop = asyncio.get_running_loop()

    def started(ingress: Ingress) -> None:
        snapshots.begin(ingress.parts.get(QuotaPolicies))
        collect_rarely()
        serve_ops(None, asked_on(loop, ingress.why_not_ready), alive=turning(loop))

    await serve(config, LOOPBACK, addresses.ingress_port, started)


def _of_services(settings: Settings, keys: Path) -> tuple[object, ...]:
    return (
        PaymentsConfig(
            processors=settings.processors,
            webhook_secrets=settings.active_webhook_secrets(),
            webhook_secret_keys=settings.webhook_secret_keys(),
            merchant_webhooks_loopback=settings.merchant_webhooks_loopback,
        ),
        TenancyConfig(
            secrets=secrets_file.read(keys),
            support_issuer=settings.support_issuer(keys).path,
            certificate_keys=CertificateKeys(keys),
        ),
        SocialConfig(media=settings.media_origin(), homes_url=settings.addresses().social_homes_url_of("ingress")),
        LimiterConfig(merchants_are_bound=settings.is_production, encrypted=settings.is_production),
    )

"""Plain values of one ingress process; what reads settings is compose/services/ingress.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingress.trust import Trust
from schemas.media_origin import MediaOrigin
from schemas.payments.webhook_secret import WebhookSecretKeys

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.decide.limiter import Limiter
    from schemas.client_network import Network
    from sinks.kafka.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Plain values of one process; the wiring that reads settings is compose/services/ingress.py."""

    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)  # of the role millrace_ingress
    console_dsn: str = field(repr=False)  # of the role millrace_console
    redis_url: str | None = field(default=None, repr=False)  # None: velocity and live usage are never known
    processors: tuple[str, ...] = ()  # that a routing policy may name
    instance: int
    trusted: tuple[Trust, ...]  # whose tokens are believed; the first is the issuer of callers
    jwks_served: Path | None  # the development issuer's file, shown at /.well-known/jwks.json
    cursor_key: bytes = field(repr=False)
    media: MediaOrigin  # where media are uploaded to and seen
    webhook_secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)  # by processor, all active
    #: what secrets of merchants' endpoints are sealed with
    webhook_secret_keys: WebhookSecretKeys = field(default_factory=WebhookSecretKeys, repr=False)
    limiter: Limiter | None = None  # of this API; None: nobody is limited
    trusted_proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed
    merchant_webhooks_loopback: bool = False  # development: endpoints of merchants on this machine, without TLS

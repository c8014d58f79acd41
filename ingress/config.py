"""Plain values of one ingress process; what reads settings is compose/services/ingress.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ingress.trust import Trust
from schemas.media_origin import MediaOrigin
from schemas.payments.webhook_secret import WebhookSecretKeys
from sinks.certificates import CertificateKeys

if TYPE_CHECKING:
    from limiter.decide.limiter import Limiter
    from schemas.client_network import Network
    from sinks.kafka.connection import KafkaConnection
    from sinks.kept_secrets import Secrets
    from sinks.tenancy.secrets_file import TenancySecrets


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
    cursor_key: bytes | Secrets = field(repr=False)  # what cursors, and other keys of pages, are made with
    media: MediaOrigin  # where media are uploaded to and seen
    support_issuer: Path | None = None  # its folder signs what support shows; None: no token of a grant is given
    webhook_secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)  # by processor, all active
    #: what secrets of merchants' endpoints are sealed with
    webhook_secret_keys: WebhookSecretKeys = field(default_factory=WebhookSecretKeys, repr=False)
    tenancy_secrets: TenancySecrets | None = field(default=None, repr=False)  # None: no tenant's data is served
    #: what certificates are signed and verified with
    certificate_keys: CertificateKeys = field(default_factory=lambda: CertificateKeys(Path("keys")), repr=False)
    limiter: Limiter | None = None  # of this API; None: nobody is limited
    trusted_proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed
    limits_bound_to_merchants: bool = False  # a merchant's ``limits:write`` is for the tenant of its own name
    servers_disk: Path | None = None  # a folder on the disk of servers on this machine
    merchant_webhooks_loopback: bool = False  # development: endpoints of merchants on this machine, without TLS

"""Plain values of one ingress process; what reads settings is compose/services/ingress.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ingress.trust import SignInClient, Trust
    from limiter.decide.limiter import Limiter
    from schemas.client_network import Network
    from sinks.kafka.connection import KafkaConnection
    from sinks.kept_secrets import Secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Plain values of one process; the wiring that reads settings is compose/services/ingress.py."""

    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)  # of the role millrace_ingress
    console_dsn: str = field(repr=False)  # of the role millrace_console
    redis_url: str | None = field(default=None, repr=False)  # None: velocity and live usage are never known
    instance: int
    trusted: tuple[Trust, ...]  # whose tokens are believed; the first is the issuer of callers
    jwks_served: Path | None  # the development issuer's file, shown at /.well-known/jwks.json
    sign_in: SignInClient | None = None  # at the issuer; None: pages take tokens alone
    cursor_key: bytes | Secrets = field(repr=False)  # what cursors, and other keys of pages, are made with
    limiter: Limiter | None = None  # of this API; None: nobody is limited
    trusted_proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed
    servers_disk: Path | None = None  # a folder on the disk of servers on this machine
    #: what one service alone needs, each of a type that the service declares and asks the parts for
    of_services: tuple[object, ...] = field(default=(), repr=False)

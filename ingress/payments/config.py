"""What payments alone need of an ingress process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.payments.webhook_secret import WebhookSecretKeys

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentsConfig:
    """Plain values, beside those of every service."""

    processors: tuple[str, ...] = ()  # that a routing policy may name
    webhook_secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)  # by processor, all active
    #: what secrets of merchants' endpoints are sealed with
    webhook_secret_keys: WebhookSecretKeys = field(default_factory=WebhookSecretKeys, repr=False)
    merchant_webhooks_loopback: bool = False  # development: endpoints of merchants on this machine, without TLS

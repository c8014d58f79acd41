"""The part of webhooks in the settings: what senders sign with, and how merchants' endpoints are reached."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

from pydantic import SecretStr, ValidationInfo, field_validator

from compose.settings.home_settings import HomeSettings
from compose.settings.processors import ProcessorSettings, secrets_of
from compose.stack.errors import StackError
from ingress.payments.webhooks.signatures import PROCESSORS as WEBHOOK_PROCESSORS
from ingress.payments.webhooks.signatures import read_secrets
from schemas.payments.processors import adapter_of
from schemas.payments.webhook_secret import WebhookSecretKeys
from vault.key_file import KeyFile, VaultKeysUnusable


class WebhookSettings(ProcessorSettings, HomeSettings):
    """What an operator may set about webhooks, those of processors and those to merchants."""

    #: webhook secrets of each sender, separated by commas: all of them verify, the first is the newest; otherwise made
    #: in the home, which is for development
    webhook_secrets_stripe: SecretStr | None = None
    webhook_secrets_standard: SecretStr | None = None
    webhook_secrets_adyen: SecretStr | None = None
    webhook_secrets_simulator: SecretStr | None = None

    #: merchants' webhook endpoints may be on this machine and without TLS: for development and tests only
    merchant_webhooks_loopback: bool = False

    #: keys that secrets of merchants' endpoints are sealed with, in a private file like the vault's; otherwise made in
    #: the home. A new key is added to the file, then ingress and merchant_webhooks are started again
    merchant_webhooks_keys_file: Path | None = None

    @field_validator(
        "webhook_secrets_stripe", "webhook_secrets_standard", "webhook_secrets_adyen", "webhook_secrets_simulator"
    )
    @classmethod
    def _are_webhook_secrets(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None:
            read_secrets(str(info.field_name).rpartition("_")[2], secrets_of(value))
        return value

    def active_webhook_secrets(self) -> dict[str, tuple[str, ...]]:
        """By processor, every secret that a webhook may be signed with; the newest first."""
        names = dict.fromkeys((*WEBHOOK_PROCESSORS, *self.processors))
        return {name: self.active_webhook_secrets_of(name) for name in names}

    def active_webhook_secrets_of(self, name: str) -> tuple[str, ...]:
        """Those of one processor; no other's is opened."""
        is_named = name in WEBHOOK_PROCESSORS
        given = getattr(self, f"webhook_secrets_{name}") if is_named else self.processor_webhook_secrets.get(name)
        if secrets := secrets_of(given):
            return secrets
        made = self.the_home().secret(f"webhook_{adapter_of(name)}")
        return (made if is_named else _derived(made, name),)

    def webhook_secrets(self) -> dict[str, str]:
        """By processor, the newest secret: what a sender signs with."""
        return {name: secrets[0] for name, secrets in self.active_webhook_secrets().items()}

    def webhook_secret_keys(self) -> WebhookSecretKeys:
        """What secrets of merchants' endpoints are sealed with: only the ingress and their sender may ask.

        Makes our file when there is none; StackError when it cannot be used.
        """
        given = self.merchant_webhooks_keys_file
        path = given or self.the_home().path / "keys" / "merchant_webhooks.json"
        file = KeyFile(path.expanduser().absolute(), ours=given is None)
        try:
            file.ensure()
            ring = file.read()
        except VaultKeysUnusable as error:
            raise StackError(error.public) from error
        return WebhookSecretKeys(ring.wrapping_keys, ring.newest)


def _derived(secret: str, name: str) -> str:
    """A development secret of its own for a further processor of the same scheme."""
    return f"whsec_{base64.b64encode(hmac.digest(secret.encode(), name.encode(), 'sha256')).decode()}"

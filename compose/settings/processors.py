"""The processors' part of the settings: which there are, where each is, and what we prove ourselves to it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from compose import limits
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from ingress.payments.webhooks.signatures import read_secrets
from schemas.payments.processors import ADAPTERS, adapter_of, is_processor_name

STRIPE_URL: Final = "https://api.stripe.com"
_LOOPBACKS: Final = frozenset({LOOPBACK, "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorAddress:
    """One processor. ``port`` is that of a simulator that this stack starts; 0 for what runs elsewhere."""

    name: str
    url: str
    port: int = 0
    key: SecretStr | None = field(default=None, repr=False)
    book: str | None = None  # where it shows its own book; None when it shows none

    @property
    def secret(self) -> str | None:
        """What we prove ourselves with, read where it lies."""
        return None if self.key is None else self.key.get_secret_value()

    @property
    def adapter(self) -> str:
        """How it is spoken to."""
        return adapter_of(self.name)


class ProcessorSettings(BaseSettings):
    """What an operator may set about processors."""

    #: where attempts are carried out, by name; the first is the default: MILLRACE_PROCESSORS=simulator,stripe
    processors: Annotated[tuple[str, ...], NoDecode] = ("simulator", "simulator_b")
    #: by name, as a JSON object: where a processor is. A simulator without an address is one that this stack starts
    processor_urls: dict[str, str] = Field(default_factory=dict)
    #: by name, as a JSON object: what we prove ourselves to a processor with (Stripe: the API key)
    processor_secrets: dict[str, SecretStr] = Field(default_factory=dict)
    #: by name, as a JSON object: where a processor other than a simulator shows its own book, as simulators do at their
    #: address; what ``millrace check`` compares with the ledger
    processor_books: dict[str, str] = Field(default_factory=dict)
    #: by name, as a JSON object: the hour, UTC, from which its reports are fetched and reconciled each day
    processor_report_hours: dict[str, Annotated[int, Field(ge=0, le=23)]] = Field(default_factory=dict)
    #: by name, as a JSON object: as MILLRACE_WEBHOOK_SECRETS_*, of processors whose name is more than their adapter's
    processor_webhook_secrets: dict[str, SecretStr] = Field(default_factory=dict)

    @field_validator("processors", mode="before")
    @classmethod
    def _split_processors(cls, value: object) -> object:
        names = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
        if isinstance(names, tuple):
            wrong = sorted({str(name) for name in names if not is_processor_name(str(name))})
            if wrong:
                raise ValueError(f"{', '.join(wrong)}: a name is {' or '.join(ADAPTERS)}, or begins with it and _")
            if not names or len(set(names)) < len(names) or len(names) > limits.PROCESSORS_MAX:
                raise ValueError(f"give 1 to {limits.PROCESSORS_MAX} processors, each once")
        return names

    @field_validator(
        *("processor_urls", "processor_books", "processor_secrets", "processor_webhook_secrets"),
        "processor_report_hours",
    )
    @classmethod
    def _of_processors(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        unknown = sorted(value.keys() - set(info.data.get("processors", value)))
        if unknown:
            raise ValueError(f"{', '.join(unknown)} is not among MILLRACE_PROCESSORS")
        return value

    @field_validator("processor_webhook_secrets")
    @classmethod
    def _are_processor_webhook_secrets(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            read_secrets(adapter_of(name), secrets_of(secret))
        return value

    @field_validator("processor_report_hours")
    @classmethod
    def _give_reports(cls, value: dict[str, int]) -> dict[str, int]:
        if silent := sorted(name for name in value if adapter_of(name) != "simulator"):
            raise ValueError(f"{', '.join(silent)} is not asked for reports: give files to 'millrace reconcile --file'")
        return value

    def embedded_processors(self) -> tuple[str, ...]:
        """The processors that this stack starts itself, each a simulator with a book of its own."""
        return tuple(n for n in self.processors if adapter_of(n) == "simulator" and n not in self.processor_urls)

    def processor_addresses(self, ports: Mapping[str, int]) -> tuple[ProcessorAddress, ...]:
        """Every processor in the order of the setting. StackError when one has no address or secret that can work."""
        embedded = self.embedded_processors()
        listening = {name: ports[port_name(name) if n else "processor_port"] for n, name in enumerate(embedded)}
        return tuple(
            _embedded(name, listening[name]) if name in listening else self._elsewhere(name) for name in self.processors
        )

    def _elsewhere(self, name: str) -> ProcessorAddress:
        url = _checked_url(name, self.processor_urls)
        book = url if adapter_of(name) == "simulator" else None
        if name in self.processor_books:
            book = _checked_url(name, self.processor_books, "BOOKS")
        return ProcessorAddress(name=name, url=url, key=_checked_key(name, self.processor_secrets), book=book)


def port_name(processor: str) -> str:
    """Under which name a further simulator's port is remembered."""
    return f"{processor}_port"


def secrets_of(value: SecretStr | None) -> tuple[str, ...]:
    """The secrets of a setting that may hold several, separated by commas; the newest first."""
    text = "" if value is None else value.get_secret_value()
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _embedded(name: str, port: int) -> ProcessorAddress:
    url = f"http://{LOOPBACK}:{port}"
    return ProcessorAddress(name=name, url=url, port=port, book=url)


def _checked_url(name: str, urls: Mapping[str, str], setting: str = "URLS") -> str:
    url = urls.get(name, STRIPE_URL)
    parts = urlsplit(url)
    # A card goes there: without TLS to this machine alone.
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACKS)
    if not is_safe or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise StackError(f"MILLRACE_PROCESSOR_{setting}: {name} needs an address https://host[:port][/path]")
    return url.rstrip("/")


def _checked_key(name: str, keys: Mapping[str, SecretStr]) -> SecretStr | None:
    if adapter_of(name) == "stripe" and not keys.get(name):
        raise StackError(f'{name} needs its API key: MILLRACE_PROCESSOR_SECRETS={{"{name}": "sk_..."}}')
    return keys.get(name)

"""Every setting of Millrace, from ``MILLRACE_*`` variables, and the addresses that follow from them.

An address that is set points at an external server, and the embedded one is then not started. What is not set
follows from the home folder: its remembered ports and generated passwords.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict, SettingsError

from compose import limits as compose_limits
from compose.settings import secret_files
from compose.settings.addresses import Addresses, secret_text
from compose.settings.gateway_settings import GatewaySettings
from compose.settings.kafka_access import ACCESS
from compose.settings.media_settings import MediaSettings
from compose.settings.preferred_ports import FURTHER_SIMULATORS, PREFERRED_PORTS
from compose.settings.processes import processes_default
from compose.settings.processors import ProcessorSettings, port_name, secrets_of
from compose.settings.role_passwords import RolePasswords
from compose.settings.secret_files import secret_fields
from compose.settings.store_transport import StoreTransport
from compose.settings.unknown_variables import PREFIX, refuse_unknown
from compose.settings.wrong_values import no_json, wrong_value
from compose.stack import varnish
from compose.stack.errors import StackError
from compose.stack.home import Home
from compose.stack.ports import remembered
from ingress.payments.webhooks.signatures import PROCESSORS as WEBHOOK_PROCESSORS
from ingress.payments.webhooks.signatures import read_secrets
from schemas.client_network import client_network
from schemas.media_origin import MediaOrigin
from schemas.payments import limits as payments_limits
from schemas.payments.processors import adapter_of
from schemas.payments.webhook_secret import WebhookSecretKeys
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.sender_keys import SenderKeys
from sinks.kafka.user import OPERATOR, KafkaUser, credentials
from sinks.postgres.roles import ROLES
from vault import limits as vault_limits
from vault.key_file import KeyFile, VaultKeysUnusable

#: our own processes: modules of ``compose.services``
SERVICES: Final = (
    "simulator",
    "vault",
    "owner",
    "processor_worker",
    "webhook_worker",
    "merchant_webhooks",
    "clickhouse_sink",
    "limiter_owner",
    "limiter_usage",
    "limiter_leases",
    "limiter_gateway",
    "social_media",
    "ingress",
)

Port = Field(default=None, ge=1, le=65535)


class Settings(ProcessorSettings, GatewaySettings, StoreTransport, MediaSettings, RolePasswords):
    """What an operator may set. Nothing is read or written before a method is called."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    home: Path = Path(".millrace")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    #: begins the name of every topic and consumer group: several installations then share one cluster
    kafka_prefix: str = Field(default="", pattern=r"^[a-zA-Z0-9._-]{0,64}$")
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    #: by kind of process, as a JSON object: it is then a user of its own name there, as at the embedded broker
    kafka_sasl_passwords: dict[str, SecretStr] = Field(default_factory=dict)
    kafka_ssl_ca_location: Path | None = None
    kafka_ssl_certificate_location: Path | None = None
    kafka_ssl_key_location: Path | None = None
    kafka_ssl_key_password: SecretStr | None = None

    #: webhook secrets of each sender, separated by commas: all of them verify, the first is the newest; otherwise made
    #: in the home, which is for development
    webhook_secrets_stripe: SecretStr | None = None
    webhook_secrets_standard: SecretStr | None = None
    webhook_secrets_adyen: SecretStr | None = None
    webhook_secrets_simulator: SecretStr | None = None

    #: seconds that a new payout destination waits before money goes there; of those that are registered from then on
    payout_cooling_off_s: int = Field(
        default=payments_limits.PAYOUT_COOLING_OFF_S, ge=0, le=payments_limits.PAYOUT_COOLING_OFF_S_MAX
    )

    #: merchants' webhook endpoints may be on this machine and without TLS: for development and tests only
    merchant_webhooks_loopback: bool = False

    #: keys that secrets of merchants' endpoints are sealed with, in a private file like the vault's; otherwise made in
    #: the home. A new key is added to the file, then ingress and merchant_webhooks are started again
    merchant_webhooks_keys_file: Path | None = None

    #: keys of the card vault that a key management system provides, in a private file; otherwise made in the home
    vault_keys_file: Path | None = None
    #: what workers prove themselves to the vault with; otherwise made in the home
    vault_secret: SecretStr | None = Field(default=None, min_length=vault_limits.VAULT_SECRET_LENGTH_MIN)

    kafka_port: int | None = Port
    kafka_controller_port: int | None = Port
    postgres_port: int | None = Port
    redis_port: int | None = Port
    clickhouse_port: int | None = Port
    ingress_port: int | None = Port
    processor_port: int | None = Port
    vault_port: int | None = Port
    rls_port: int | None = Port
    media_port: int | None = Port

    #: networks of proxies in front of the ingress whose X-Forwarded-For is believed, separated by commas
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()

    #: modules of services that lie in packages of their own, with spaces between them; ``schemas.services`` reads it
    service_modules: str = ""
    #: NAME=VERSION of records that are written as the release before knows them; ``schemas.codec`` reads it
    written_schemas: str = Field(default="", pattern=r"^(\w+=\d+( +|$))*$")
    #: whole while processes of the release before run, which cannot render answers; ``schemas.stored_answer`` reads it
    written_answers: Literal["whole", "by_event"] = "by_event"
    services: Annotated[tuple[str, ...], NoDecode] = SERVICES  # MILLRACE_SERVICES=owner,ingress runs these only
    #: NAME=COUNT of owners and workers that services declare; 0 where it runs elsewhere
    worker_processes: str = Field(default="", pattern=r"^(\w+=\d{1,2}( +|$))*$")
    #: all sinks of ClickHouse in one process, or each in one of its own
    clickhouse_sinks: Literal["together", "apart"] = "together"
    ingress_processes: int = Field(default_factory=processes_default, ge=1, le=compose_limits.INGRESS_PROCESSES_MAX)
    vault_processes: int = Field(default=1, ge=1, le=vault_limits.VAULT_PROCESSES_MAX)
    owner_processes: int = Field(default_factory=processes_default, ge=1, le=compose_limits.OWNER_PROCESSES_MAX)

    @field_validator("home", mode="before")
    @classmethod
    def _is_named(cls, value: object) -> object:
        if not str(value).strip():  # a script whose own variable is empty would fill the folder that it stands in
            raise ValueError("name a folder, or leave it out")
        return value

    @field_validator("services", mode="before")
    @classmethod
    def _split_services(cls, value: object) -> object:
        names = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
        unknown = set(names if isinstance(names, tuple) else ()) - set(SERVICES)
        if unknown:
            raise ValueError(f"unknown service {', '.join(sorted(unknown))}; there are {', '.join(SERVICES)}")
        return names

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _are_networks(cls, value: object) -> object:
        texts = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
        for text in texts if isinstance(texts, tuple) else ():
            client_network(text)  # a ValueError says what is wrong
        return texts

    @field_validator(
        "webhook_secrets_stripe", "webhook_secrets_standard", "webhook_secrets_adyen", "webhook_secrets_simulator"
    )
    @classmethod
    def _are_webhook_secrets(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None:
            read_secrets(str(info.field_name).rpartition("_")[2], secrets_of(value))
        return value

    def environment(self) -> dict[str, str]:
        """The variables that make the same settings in a process that is not ours, secrets included."""
        return self.environment_without_secrets() | {
            f"{PREFIX}{name.upper()}": _as_variable(getattr(self, name))
            for name in secret_fields(type(self))
            if getattr(self, name)
        }

    def environment_without_secrets(self) -> dict[str, str]:
        """Those of them that are no secrets, whatever was given in code."""
        given = self.model_dump(mode="python", exclude_defaults=True, exclude=set(secret_fields(type(self))))
        given["home"] = self.the_home().path
        return {f"{PREFIX}{name.upper()}": _as_variable(value) for name, value in given.items()}

    def the_home(self) -> Home:
        """The home folder with an absolute path, so that a process may change its folder."""
        return Home(self.home.expanduser().absolute())

    def keeps_data_here(self) -> bool:
        """Whether servers of this home write what commands come to: then its disk is what fills."""
        return self.kafka_bootstrap is None or self.postgres_dsn is None

    def explicit_ports(self) -> dict[str, int]:
        """The ports that the operator set and that are never replaced."""
        named = {name: getattr(self, name) for name in PREFERRED_PORTS | self._cache_port()}
        return {name: port for name, port in named.items() if port is not None}

    def preferred_ports(self) -> dict[str, int]:
        """The ports of everything that a stack starts, a simulator for each processor without an address among it."""
        further = self.embedded_processors()[1:]
        simulators = {port_name(name): FURTHER_SIMULATORS + n for n, name in enumerate(further)}
        return PREFERRED_PORTS | self._cache_port() | simulators

    def may_have_media_cache(self) -> bool:
        """Whether there is one where Varnish is installed: nobody said anything else, and all servers are our own."""
        return self.media_cache == "auto" and "social_media" in self.services and self.postgres_dsn is None

    def _cache_port(self) -> dict[str, int]:
        return self.preferred_cache_port(may=self.may_have_media_cache())

    def kafka_security(self, user: str = OPERATOR) -> dict[str, str]:
        """The security options of a Kafka client, by librdkafka's names.

        At the embedded broker each kind of process is a user of its own; at another those that the settings name are.
        """
        if self.kafka_bootstrap is None:
            return credentials(user, self.the_home().secret(f"kafka_{user}"))
        if self.kafka_security_protocol == "PLAINTEXT":
            return {}
        sasl = self.kafka_security_protocol.startswith("SASL")
        own = self.kafka_sasl_passwords.get(user)
        options = {
            "security.protocol": self.kafka_security_protocol,
            "sasl.mechanism": self.kafka_sasl_mechanism if sasl else None,
            "sasl.username": self.kafka_sasl_username if own is None else user,
            "sasl.password": secret_text(self.kafka_sasl_password if own is None else own),
            "ssl.ca.location": _text(self.kafka_ssl_ca_location),
            "ssl.certificate.location": _text(self.kafka_ssl_certificate_location),
            "ssl.key.location": _text(self.kafka_ssl_key_location),
            "ssl.key.password": secret_text(self.kafka_ssl_key_password),
        }
        return {name: value for name, value in options.items() if value is not None}

    def role_password(self, role: str) -> str:
        """That of one role of Postgres; no other is opened."""
        given: SecretStr | None = getattr(self, f"postgres_{role.removeprefix('millrace_')}_password", None)
        return secret_text(given) or self.the_home().secret(role)

    def role_passwords(self) -> dict[str, str]:
        """Role name to password: for the migrations alone."""
        return {role: self.role_password(role) for role in ROLES}

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

    def vault_keys(self) -> KeyFile:
        """Where the card vault's keys lie: only the vault and 'millrace vault' may ask."""
        if self.vault_keys_file is not None:
            return KeyFile(self.vault_keys_file.expanduser().absolute(), ours=False)
        return KeyFile(self.the_home().path / "keys" / "vault.json", ours=True)

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

    def sender_keys(self) -> SenderKeys:
        """The keys of producers of commands: an owner reads them all."""
        return SenderKeys(self.the_home().path / "keys" / "senders")

    def kafka_users(self) -> list[KafkaUser]:
        """Whom the embedded broker knows: for the supervisor alone."""
        home = self.the_home()

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(self.kafka_prefix + name for name in names)

        users = [
            KafkaUser(
                name=name,
                password=home.secret(f"kafka_{name}"),
                writes=named(access.writes),
                reads=named(access.reads),
                groups=named(access.groups),
                watched=named(access.watched),
            )
            for name, access in ACCESS.items()
        ]
        return [*users, KafkaUser(name=OPERATOR, password=home.secret(f"kafka_{OPERATOR}"))]

    def kafka_of(self, process: str, *roles: str) -> KafkaConnection:
        """Kafka as one kind of process uses it, which sends commands in these roles; StackError without their keys."""
        keys = self.sender_keys()
        try:
            keys.ensure(*roles)
            senders = keys.senders(roles)
        except (OSError, ValueError, KeyError) as error:
            raise StackError(f"the keys of {', '.join(roles)} cannot be read: {error}") from error
        return replace(self.addresses().kafka_of(process), senders=senders)

    def kafka_as(self, *roles: str) -> KafkaConnection:
        """Kafka as a tool at the shell uses it, which sends commands in these roles; StackError without their keys."""
        return self.kafka_of(OPERATOR, *roles)

    def vault_forward_secret(self) -> str:
        """What a worker says to the vault's /v1/forward, as ``Authorization: Bearer``."""
        given = secret_text(self.vault_secret)
        if given is not None and len(given) < vault_limits.VAULT_SECRET_LENGTH_MIN:  # from a file: nobody has looked
            raise StackError(f"MILLRACE_VAULT_SECRET needs {vault_limits.VAULT_SECRET_LENGTH_MIN} characters")
        return given or self.the_home().secret("vault_forward")

    def media_origin(self, *, signs: bool = True) -> MediaOrigin:
        """Where media are, and what their URLs are signed with: for the origin, the ingress and its workers.

        Who signs none is not given the key.
        """
        home, addresses = self.the_home(), self.addresses()
        secret = (secret_text(self.media_urls_secret) or home.secret("media_urls")) if signs else ""
        folder = (self.media_folder or home.data("media")).expanduser().absolute()
        caches = (addresses.media_url,) if addresses.media_cache_port else ()
        return MediaOrigin(
            url=addresses.media_url,
            uploads_url=addresses.media_origin_url,
            key=secret.encode(),
            folder=folder,
            bucket=self.bucket(),
            caches=caches,
        )

    def addresses(self) -> Addresses:
        """Where everything is; raises ``StackError`` when the home has no ports yet ("millrace up" first)."""
        home = self.the_home()
        ports = remembered(home) | self.explicit_ports()
        missing = [name for name in self.preferred_ports() if name not in ports and name not in varnish.PORT]
        if missing:
            raise StackError(f"nothing was started in {home.path} yet: run 'millrace up'")
        return Addresses(self, ports)


def load_settings(home: Path | None = None, *, opens_files: bool = True) -> Settings:
    """The settings of this process; a wrong value is a ``StackError`` that names the variable.

    Addresses that lie in files are looked at, too; not in a service, which opens those alone that it needs: who
    started it has looked.
    """
    refuse_unknown(os.environ, {*Settings.model_fields, *secret_files.variables(Settings)})
    try:
        settings = Settings() if home is None else Settings(home=home)
        found = settings.model_copy(update=secret_files.from_files(Settings, os.environ))
    except ValidationError as error:
        raise StackError(wrong_value(error)) from None
    except SettingsError as error:
        raise StackError(no_json(error)) from None
    if opens_files and (fault := found.refused_address()):
        raise StackError(fault)
    return found


def _derived(secret: str, name: str) -> str:
    """A development secret of its own for a further processor of the same scheme."""
    return f"whsec_{base64.b64encode(hmac.digest(secret.encode(), name.encode(), 'sha256')).decode()}"


def _as_variable(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps({name: _as_variable(item) for name, item in value.items()})
    return str(value)


def _text(value: Path | None) -> str | None:
    return None if value is None else str(value)

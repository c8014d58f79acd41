"""Every setting of Millrace, from ``MILLRACE_*`` variables, and the addresses that follow from them.

An address that is set points at an external server, and the embedded one is then not started. What is not set
follows from the home folder: its remembered ports and generated passwords.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from compose import limits as compose_limits
from compose.settings import secret_files
from compose.settings.addresses import Addresses, secret_text
from compose.settings.gateway_settings import GatewaySettings
from compose.settings.kafka_settings import KafkaSettings
from compose.settings.media_settings import MediaSettings
from compose.settings.preferred_ports import FURTHER_SIMULATORS, PREFERRED_PORTS
from compose.settings.processes import processes_default
from compose.settings.processors import port_name
from compose.settings.role_passwords import RolePasswords
from compose.settings.secret_files import secret_fields
from compose.settings.unknown_variables import PREFIX, refuse_unknown
from compose.settings.valkey_settings import ValkeySettings
from compose.settings.vault_settings import VaultSettings
from compose.settings.webhook_settings import WebhookSettings
from compose.settings.wrong_values import no_json, wrong_value
from compose.stack import varnish
from compose.stack.errors import StackError
from compose.stack.ports import remembered
from schemas.client_network import client_network
from schemas.payments import limits as payments_limits
from schemas.social.media_origin import MediaOrigin
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.user import OPERATOR
from sinks.postgres.roles import ROLES
from vault import limits as vault_limits

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


class Settings(
    ValkeySettings, KafkaSettings, WebhookSettings, VaultSettings, GatewaySettings, MediaSettings, RolePasswords
):
    """What an operator may set. Nothing is read or written before a method is called."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    @classmethod
    def settings_customise_sources(  # noqa: D102 - as pydantic calls it
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del settings_cls, dotenv_settings, file_secret_settings  # no file is looked for, which took half of the time
        return init_settings, env_settings

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    #: seconds that a new payout destination waits before money goes there; of those that are registered from then on
    payout_cooling_off_s: int = Field(
        default=payments_limits.PAYOUT_COOLING_OFF_S, ge=0, le=payments_limits.PAYOUT_COOLING_OFF_S_MAX
    )

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
    #: NAME=VERSION of records that are written as the release before knows them; ``schemas.avro.codec`` reads it
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

    def role_password(self, role: str) -> str:
        """That of one role of Postgres; no other is opened."""
        given: SecretStr | None = getattr(self, f"postgres_{role.removeprefix('millrace_')}_password", None)
        return secret_text(given) or self.the_home().secret(role)

    def role_passwords(self) -> dict[str, str]:
        """Role name to password: for the migrations alone."""
        return {role: self.role_password(role) for role in ROLES}

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


def _as_variable(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps({name: _as_variable(item) for name, item in value.items()})
    return str(value)

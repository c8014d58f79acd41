"""Where every server and service of one stack is: what settings and home lead to.

What has a password in it is made when it is asked for, so a process opens the files of its own secrets alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, Protocol
from urllib.parse import quote, urlsplit, urlunsplit

from compose.settings.processors import ProcessorAddress
from compose.stack.ports import LOOPBACK
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.user import OPERATOR
from sinks.postgres.roles import ROLES
from sinks.redis.user import OPERATOR as REDIS_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

    from compose.stack.home import Home

DATABASE: Final = "millrace"


class SettingsOfAddresses(Protocol):
    """What of the settings addresses are made of."""

    kafka_bootstrap: str | None
    kafka_prefix: str
    postgres_dsn: SecretStr | None
    postgres_address: str | None
    redis_url: SecretStr | None
    social_homes_url: SecretStr | None
    clickhouse_url: SecretStr | None
    clickhouse_reader_url: SecretStr | None
    media_cache: Literal["auto", "none", "varnish"]

    def the_home(self) -> Home:
        """The home folder."""

    def kafka_security(self, user: str) -> dict[str, str]:
        """By librdkafka's names."""

    def counters_as(self, kind: str, url: str) -> str:
        """The server of the counters as such a process."""

    def homes_as(self, kind: str, url: str) -> str:
        """A server of homes alone as such a process."""

    def role_password(self, role: str) -> str:
        """That of one role of Postgres."""

    def processor_addresses(self, ports: Mapping[str, int]) -> tuple[ProcessorAddress, ...]:
        """Every processor."""


class RoleDsns(Mapping[str, str]):
    """A URL of Postgres for each role of ``sinks/postgres/roles.py``, made when it is asked for."""

    def __init__(self, superuser_dsn: str, password_of: Callable[[str], str]) -> None:
        self._superuser_dsn = superuser_dsn
        self._password_of = password_of

    def __getitem__(self, role: str) -> str:
        if role not in ROLES:
            raise KeyError(role)
        parts = urlsplit(self._superuser_dsn)
        where = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{role}:{quote(self._password_of(role), safe='')}@{where}"))

    def __iter__(self) -> Iterator[str]:
        return iter(ROLES)

    def __len__(self) -> int:
        return len(ROLES)


class Addresses:
    """Where every server and service of one stack is, with credentials: never log it."""

    def __init__(self, settings: SettingsOfAddresses, ports: Mapping[str, int]) -> None:
        self._settings = settings
        self._home = settings.the_home()
        self._ports = ports
        self.processors: tuple[ProcessorAddress, ...] = settings.processor_addresses(ports)  # in the setting's order
        self.ingress_port = ports["ingress_port"]
        self.vault_port = ports["vault_port"]
        self.rls_port = ports["rls_port"]
        self.media_port = ports["media_port"]
        # where a cache is in front of the media origin
        #: 0 where there is none; with "auto" it was remembered by who started the stack
        self.media_cache_port = ports.get("media_cache_port", 0) if settings.media_cache != "none" else 0

    @property
    def kafka(self) -> KafkaConnection:
        """Of tools at a shell."""
        return self.kafka_of(OPERATOR)

    def kafka_of(self, user: str) -> KafkaConnection:
        """Of one kind of process: see ``compose.settings.kafka_access``."""
        security = self._settings.kafka_security(user)
        return KafkaConnection(bootstrap=self.kafka_bootstrap, prefix=self._settings.kafka_prefix, security=security)

    @property
    def postgres_superuser_dsn(self) -> str:
        """For migrations alone."""
        given = secret_text(self._settings.postgres_dsn)
        return given or self._embedded_postgres(f"postgres:{quote(self._home.secret('postgres'), safe='')}@")

    @property
    def postgres_dsns(self) -> RoleDsns:
        """By role: see sinks/postgres/roles.py."""
        given = self._settings.postgres_address or secret_text(self._settings.postgres_dsn)
        where = given or self._embedded_postgres("")
        return RoleDsns(where, self._settings.role_password)

    def _embedded_postgres(self, who: str) -> str:
        return f"postgresql://{who}{LOOPBACK}:{self._ports['postgres_port']}/{DATABASE}"

    @property
    def redis_url(self) -> str:
        """The counter store, of tools at a shell."""
        return self.redis_url_of(REDIS_OPERATOR)

    def redis_url_of(self, kind: str) -> str:
        """Of one kind of process: see ``compose.settings.valkey_access``."""
        given = secret_text(self._settings.redis_url) or f"redis://{LOOPBACK}:{self._ports['redis_port']}/0"
        return self._settings.counters_as(kind, given)

    @property
    def social_homes_url(self) -> str:
        """Homes of social posts, of tools at a shell: a store of their own, or the one of the counters."""
        return self.social_homes_url_of(REDIS_OPERATOR)

    def social_homes_url_of(self, kind: str) -> str:
        """Of one kind of process."""
        given = secret_text(self._settings.social_homes_url)
        return self.redis_url_of(kind) if given is None else self._settings.homes_as(kind, given)

    @property
    def clickhouse_url(self) -> str:
        """As the user that writes."""
        return secret_text(self._settings.clickhouse_url) or self._embedded_clickhouse("default", "clickhouse")

    @property
    def clickhouse_reader_url(self) -> str:
        """What analysts and scripts use: select only."""
        given = secret_text(self._settings.clickhouse_reader_url) or secret_text(self._settings.clickhouse_url)
        return given or self._embedded_clickhouse("reader", "clickhouse_reader")

    def _embedded_clickhouse(self, user: str, secret: str) -> str:
        password = quote(self._home.secret(secret), safe="")
        return f"http://{user}:{password}@{LOOPBACK}:{self._ports['clickhouse_port']}/{DATABASE}"

    @property
    def kafka_bootstrap(self) -> str:
        """The brokers' addresses."""
        return self._settings.kafka_bootstrap or f"{LOOPBACK}:{self._ports['kafka_port']}"

    @property
    def base_url(self) -> str:
        """The public HTTP interface."""
        return f"http://{LOOPBACK}:{self.ingress_port}"

    @property
    def postgres_reader_dsn(self) -> str:
        """What analysts and scripts use: select only."""
        return self.postgres_dsns["millrace_reader"]

    @property
    def rls_address(self) -> str:
        """Envoy's RateLimitService, host and port."""
        return f"{LOOPBACK}:{self.rls_port}"

    @property
    def processor_url(self) -> str:
        """The first processor: usually a simulator, which is no part of the platform."""
        return self.processors[0].url

    @property
    def processor_port(self) -> int:
        """The first simulator's port, with a stack that starts one; else 0."""
        return next((p.port for p in self.processors if p.port), 0)

    @property
    def processor_urls(self) -> dict[str, str]:
        """Every processor by name."""
        return {processor.name: processor.url for processor in self.processors}

    @property
    def simulator_urls(self) -> dict[str, str]:
        """The processors whose reports are fetched from them: the simulators."""
        return {p.name: p.url for p in self.processors if p.adapter == "simulator"}

    @property
    def book_urls(self) -> dict[str, str]:
        """The processors that show their own books, by name."""
        return {p.name: p.book for p in self.processors if p.book is not None}

    @property
    def media_url(self) -> str:
        """Where renditions come from: the media origin, or the cache in front of it."""
        return f"http://{LOOPBACK}:{self.media_cache_port or self.media_port}"

    @property
    def media_origin_url(self) -> str:
        """The media origin itself: parts of uploads go there."""
        return f"http://{LOOPBACK}:{self.media_port}"

    @property
    def vault_url(self) -> str:
        """The card vault: clients send it card numbers, workers the calls that need one."""
        return f"http://{LOOPBACK}:{self.vault_port}"


def secret_text(value: SecretStr | None) -> str | None:
    """What is behind it."""
    return None if value is None else value.get_secret_value()

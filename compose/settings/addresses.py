"""Where every server and service of one stack is: what settings and home lead to."""

from __future__ import annotations

from dataclasses import dataclass, field

from compose.settings.processors import ProcessorAddress
from compose.stack.ports import LOOPBACK
from sinks.kafka.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where every server and service of one stack is, with credentials: never log it."""

    kafka: KafkaConnection
    postgres_superuser_dsn: str = field(repr=False)
    postgres_dsns: dict[str, str] = field(repr=False)  # by role: see sinks/postgres/roles.py
    redis_url: str = field(repr=False)
    clickhouse_url: str = field(repr=False)
    clickhouse_reader_url: str = field(repr=False)  # what analysts and scripts use: select only
    ingress_port: int
    processors: tuple[ProcessorAddress, ...]  # in the order of MILLRACE_PROCESSORS
    vault_port: int
    rls_port: int
    media_port: int
    media_cache_port: int = 0  # where a cache is in front of the media origin

    @property
    def kafka_bootstrap(self) -> str:
        """The brokers' addresses."""
        return self.kafka.bootstrap

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
        """The processors that show their own books and reports: the simulators."""
        return {p.name: p.url for p in self.processors if p.adapter == "simulator"}

    @property
    def media_url(self) -> str:
        """Where parts of uploads go, and renditions come from: the media origin, or the cache in front of it."""
        return f"http://{LOOPBACK}:{self.media_cache_port or self.media_port}"

    @property
    def media_origin_url(self) -> str:
        """The media origin itself."""
        return f"http://{LOOPBACK}:{self.media_port}"

    @property
    def vault_url(self) -> str:
        """The card vault: clients send it card numbers, workers the calls that need one."""
        return f"http://{LOOPBACK}:{self.vault_port}"

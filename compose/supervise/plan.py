"""What one stack consists of: which servers are embedded, and which services run how often."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.services import ops
from compose.settings.limiter_gateways import gateway_addresses
from compose.settings.processors import port_name
from compose.settings.service_processes import PROCESSES, process_counts
from compose.stack.clickhouse.server import ClickHouse
from compose.stack.errors import StackError
from compose.stack.kafka import Kafka
from compose.stack.ports import LOOPBACK, PortLeases
from compose.stack.postgres import Postgres
from compose.stack.valkey import Valkey
from compose.stack.varnish import Varnish
from compose.supervise.asked import refusal
from compose.supervise.child import ChildSpec
from compose.supervise.state import STACK_ID_VARIABLE

if TYPE_CHECKING:
    from compose.settings.settings import Settings
    from compose.stack.server import EmbeddedServer
    from compose.supervise.forking import ForkServer

_PORTS_OF: Final = {
    "kafka_bootstrap": ("kafka_port", "kafka_controller_port"),
    "postgres_dsn": ("postgres_port",),
    "redis_url": ("redis_port",),
    "clickhouse_url": ("clickhouse_port",),
}
#: services that share nothing with others, not even where code lies in memory
_EXECUTED: Final = ("vault", "simulator")
#: what a fork server imports besides: compiled codecs, and what httpx imports for its first client only
FORKED_WITH: Final = ("schemas.avro.compiled", "httpcore", "compose.services.logs")


def assign_ports(settings: Settings, leases: PortLeases, *, servers_only: bool) -> dict[str, int]:
    """Ports for everything that this stack runs itself; remembered in the home."""
    unused = {name for setting, names in _PORTS_OF.items() if getattr(settings, setting) for name in names}
    if servers_only:
        unused |= {
            "ingress_port",
            "processor_port",
            "vault_port",
            "rls_port",
            "media_port",
            "media_cache_port",
            *map(port_name, settings.embedded_processors()),
        }
    if not servers_only:
        _lease_frames_ports(settings, leases)
    explicit = {name: port for name, port in settings.explicit_ports().items() if name not in unused}
    preferred = settings.preferred_ports()
    if servers_only:
        preferred.pop("media_cache_port", None)  # it is in front of a service
    return leases.assign(settings.the_home(), preferred, explicit)


def _lease_frames_ports(settings: Settings, leases: PortLeases) -> None:
    gateways = gateway_addresses(settings)
    for gateway in gateways:
        if gateway.port is not None and not leases.take(gateway.port):
            raise StackError(
                f"port {gateway.port} for the frames of {gateway.name} is in use: set MILLRACE_LIMITER_FRAMES_PORT "
                f"to the first of {len(gateways)} free ports"
            )


def embedded_servers(settings: Settings, ports: dict[str, int]) -> list[EmbeddedServer]:
    """The servers that no setting points elsewhere."""
    home = settings.the_home()
    servers: list[EmbeddedServer] = []
    if settings.kafka_bootstrap is None:
        where = home.data("kafka"), ports["kafka_port"], ports["kafka_controller_port"]
        servers.append(Kafka(*where, home.secret("kafka_broker"), settings.kafka_users))
    if settings.postgres_dsn is None:
        servers.append(Postgres(home.data("postgres"), ports["postgres_port"], home.secret("postgres")))
    if settings.redis_url is None:
        servers.append(_valkey(settings, ports["redis_port"]))
    if settings.clickhouse_url is None:
        by_user = home.secret("clickhouse"), home.secret("clickhouse_reader")
        servers.append(ClickHouse(home.data("clickhouse"), ports["clickhouse_port"], *by_user))
    if "media_cache_port" in ports:
        ends = ports["media_cache_port"], ports["media_port"]
        servers.append(Varnish(home.data("media_cache"), *ends, settings.media_origin().purge_key))
    return servers


def _valkey(settings: Settings, port: int) -> Valkey:
    """With a user for each kind of process. The one password of a release before opens nothing, and is kept nowhere."""
    home, (operator, *others) = settings.the_home(), settings.valkey_users()
    (home.secrets / "redis").unlink(missing_ok=True)
    return Valkey(home.data("redis"), port, operator.password, others)


def server_spec(settings: Settings, server: EmbeddedServer, stack_id: str) -> ChildSpec:
    """How the supervisor runs an embedded server."""
    home = settings.the_home()
    return ChildSpec(
        name=server.name,
        kind="server",
        command=server.command,
        environment={**server.environment(), STACK_ID_VARIABLE: stack_id},
        unhealthy=server.unhealthy,
        silent=server.unhealthy,
        left_alone=True,
        stop_signal=server.stop_signal,
        start_timeout_s=limits.SERVER_START_TIMEOUT_S,
        restart_timeout_s=limits.SERVER_RECOVERY_TIMEOUT_S,
        log=home.log(server.name),
        folder=home.path,
        address=server.address,
    )


def forked_modules(settings: Settings) -> list[str]:
    """What the fork server imports: the modules of the services that it forks."""
    modules = [f"compose.services.{service}" for service in settings.services if service not in _EXECUTED]
    return [*FORKED_WITH, *modules, *(["compose.services.of_service"] if PROCESSES else [])]


def service_specs(
    settings: Settings, leases: PortLeases, stack_id: str, fork_server: ForkServer | None
) -> list[ChildSpec]:
    """How the supervisor runs our own processes, each with a loopback port for its health and metrics."""
    counts = process_counts(settings.worker_processes) | {
        "ingress": settings.ingress_processes,
        "owner": settings.owner_processes,
        "vault": settings.vault_processes,
        "limiter_gateway": settings.limiter_gateway_processes,
        "simulator": len(settings.embedded_processors()),
        "clickhouse_sink": 1 if settings.clickhouse_sinks == "together" else _sinks(),
    }
    return [
        replace(
            _service_spec(settings, service, instance, leases.take_any(), stack_id),
            fork_server=None if service in _EXECUTED else fork_server,
        )
        for service in (*settings.services, *PROCESSES)
        for instance in range(counts.get(service, 1))
    ]


def _sinks() -> int:
    from sinks.clickhouse.services import SINKS  # noqa: PLC0415 - brings ClickHouse's driver, which nothing else here needs

    return len(SINKS)


def _service_spec(settings: Settings, service: str, instance: int, ops_port: int, stack_id: str) -> ChildSpec:
    home = settings.the_home()
    addresses = settings.addresses()
    urls = {"ingress": addresses.base_url, "vault": addresses.vault_url, "limiter_gateway": addresses.rls_address}
    urls["social_media"] = addresses.media_origin_url
    name, address = f"{service}-{instance}", urls.get(service)
    if service == "simulator":  # each is a processor of its own, with its own name
        processor = settings.embedded_processors()[instance]
        name, address = f"{processor}-0", addresses.processor_urls[processor]
    ops_address = f"{LOOPBACK}:{ops_port}"
    environment = {
        "MILLRACE_HOME": str(home.path),
        STACK_ID_VARIABLE: stack_id,
        ops.PORT_VARIABLE: str(ops_port),
    }
    return ChildSpec(
        name=name,
        kind="service",
        command=lambda: [sys.executable, "-m", "compose.services", service, "--instance", str(instance)],
        environment=environment,
        unhealthy=partial(refusal, ops_address, "/startz"),
        silent=partial(refusal, ops_address, "/healthz"),
        stop_signal=signal.SIGTERM,
        start_timeout_s=limits.SERVICE_START_TIMEOUT_S,
        log=home.log(name),
        folder=Path.cwd(),
        address=address,
        ops_url=f"http://{ops_address}",
    )

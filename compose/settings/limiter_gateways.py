"""The gateways' part of the settings: how many, where each is, and among how many an ``open`` quota is divided.

Every instance has its own Unix socket and, where a port is set, its own TCP port for frames: clients choose. Envoy's
services have one address for all of them, and the kernel spreads connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from compose.stack.ports import LOOPBACK
from schemas import limits

if TYPE_CHECKING:
    from pathlib import Path

    from compose.settings.settings import Settings
    from compose.supervise.state import StackState

SERVICE: Final = "limiter_gateway"
_PORT_MAX: Final = 65_535


class GatewaySettings(BaseSettings):
    """What an operator may set about gateways."""

    #: gateways tell one another, in the stream, which identities they charged: one that several charged is given back
    limiter_refunds: bool = True
    #: for so long after it has expired a policy snapshot decides; then each policy's failure mode
    limiter_max_stale_s: int = Field(
        default=limits.LIMIT_SNAPSHOT_MAX_STALE_S, ge=0, le=limits.LIMIT_SNAPSHOT_MAX_STALE_MAX_S
    )

    #: gateways of this machine, each with its own leases, ring, book and sockets
    limiter_gateway_processes: int = Field(default=1, ge=1, le=limits.LIMIT_GATEWAY_PROCESSES_MAX)
    #: how many gateways of all machines decide by the same policies, when that is more than this machine's processes:
    #: without the counter store each allows its part of an `open` one
    limiter_gateways: int | None = Field(default=None, ge=1, le=limits.LIMIT_GATEWAYS_MAX)

    #: CHECK frames over TCP of this machine, beside the Unix socket: whoever may connect may spend any quota. It is the
    #: first gateway's; each further one has the next port
    limiter_frames_port: int | None = Field(default=None, ge=1, le=_PORT_MAX)

    @field_validator("limiter_gateways")
    @classmethod
    def _count_ours(cls, value: int | None, info: ValidationInfo) -> int | None:
        ours = info.data.get("limiter_gateway_processes", 1)
        if value is not None and value < ours:
            raise ValueError(f"this machine alone runs {ours} (MILLRACE_LIMITER_GATEWAY_PROCESSES), no fewer")
        return value

    @field_validator("limiter_frames_port")
    @classmethod
    def _has_room(cls, value: int | None, info: ValidationInfo) -> int | None:
        last = _PORT_MAX + 1 - info.data.get("limiter_gateway_processes", 1)
        if value is not None and value > last:
            raise ValueError(f"each gateway takes the next port: give at most {last}")
        return value


class GatewayAddress(NamedTuple):
    """One gateway process."""

    name: str  # as 'millrace status' shows it
    socket: Path
    port: int | None  # of frames over TCP

    def as_object(self) -> dict[str, str | None]:
        """What ``millrace up --json`` prints of it."""
        address = None if self.port is None else f"{LOOPBACK}:{self.port}"
        return {"name": self.name, "socket": str(self.socket), "address": address}


def gateway_address(settings: Settings, instance: int) -> GatewayAddress:
    """That of one instance."""
    first = settings.limiter_frames_port
    path = settings.the_home().run / f"limiter-{instance}.sock"
    return GatewayAddress(f"{SERVICE}-{instance}", path, None if first is None else first + instance)


def gateway_addresses(settings: Settings) -> list[GatewayAddress]:
    """Those of all gateways that this machine runs."""
    if SERVICE not in settings.services:
        return []
    return [gateway_address(settings, instance) for instance in range(settings.limiter_gateway_processes)]


def running_gateways(settings: Settings, state: StackState) -> list[GatewayAddress]:
    """Those of the gateways that a stack runs, whatever this shell's settings say of their number."""
    names = [entry.name for entry in state.processes if entry.name.rpartition("-")[0] == SERVICE]
    return [gateway_address(settings, int(name.rpartition("-")[2])) for name in names]


def gateways_everywhere(settings: Settings) -> int:
    """How many share what an ``open`` policy allows without the store."""
    return settings.limiter_gateways or settings.limiter_gateway_processes

"""The gateways of this machine: where each is, and among how many an ``open`` quota is divided.

Every instance has its own Unix socket and, where a port is set, its own TCP port for frames: clients choose. Envoy's
services have one address for all of them, and the kernel spreads connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from compose.stack.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from compose.settings.settings import Settings

SERVICE: Final = "limiter_gateway"


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


def running_gateways(settings: Settings, processes: Iterable[str]) -> list[GatewayAddress]:
    """Those of the gateways among a stack's processes, whatever this shell's settings say of their number."""
    names = [name for name in processes if name.rpartition("-")[0] == SERVICE]
    return [gateway_address(settings, int(name.rpartition("-")[2])) for name in names]


def gateways_everywhere(settings: Settings) -> int:
    """How many share what an ``open`` policy allows without the store."""
    return settings.limiter_gateways or settings.limiter_gateway_processes

"""The limiter gateways' part of the settings: how many there are, and what each does."""

from __future__ import annotations

from typing import Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from schemas.limiter import limits

_PORT_MAX: Final = 65_535


class GatewaySettings(BaseSettings):
    """What an operator may set about gateways."""

    #: gateways tell one another, in the stream, which identities they charged: one that several charged is given back
    limiter_refunds: bool = True
    #: for so long after it has expired a policy snapshot decides; then each policy's failure mode
    limiter_max_stale_s: int = Field(
        default=limits.LIMIT_SNAPSHOT_MAX_STALE_S, ge=0, le=limits.LIMIT_SNAPSHOT_MAX_STALE_MAX_S
    )

    #: for so long a decision waits for the counter store; then leases or its policy's failure mode decide
    limiter_store_timeout_ms: int = Field(default=int(limits.LIMIT_STORE_TIMEOUT_S * 1_000), ge=1, le=10_000)

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

"""Decides which tenants have most of the database's time, from what a process measured in a window. Pure.

The owner judges who has others wait for commands; whoever only reads is seen by nobody there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from dataflows import limits
from dataflows.fair_share import unfair_share
from schemas.tenancy import limits as tenancy_limits

WINDOW_S: Final = limits.NOISE_WINDOW_S
AGAIN_S: Final = limits.NOISE_AGAIN_S
MOVE_WINDOWS: Final = limits.NOISE_MOVE_WINDOWS
_ALONE: Final = 1


class DatabaseNoise(Struct, frozen=True):
    """A tenant with more than its part; ``share`` is of one."""

    tenant_id: str
    share: float
    database_ms: int


def noisy_in(spent_s: Mapping[str, float], window_s: float) -> list[DatabaseNoise]:
    """Those with more than three fair shares, as of an owner's work, where others ask, too.

    Nobody is where the database had little to do: together its statements must have taken half of the window at least.
    """
    total_s = sum(spent_s.values())
    if len(spent_s) <= _ALONE or total_s < tenancy_limits.NOISE_DATABASE_BUSY_MIN * window_s:
        return []
    bound = unfair_share(len(spent_s))
    return [
        DatabaseNoise(tenant_id, own_s / total_s, round(1_000 * own_s))
        for tenant_id, own_s in sorted(spent_s.items())
        if own_s / total_s > bound
    ]

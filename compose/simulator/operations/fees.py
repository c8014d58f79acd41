"""What the processor keeps of a capture: a rule of its own, which a settlement compares with what others accrued."""

from __future__ import annotations

from typing import Final

from compose.simulator import limits

_BPS: Final = 10_000  # basis points in one


def fee_of(amount: int) -> int:
    """The fee on a captured amount in minor units, rounded half up."""
    return (amount * limits.SIMULATOR_FEE_BPS + _BPS // 2) // _BPS

"""Fees of a capture, in integer arithmetic only."""

from __future__ import annotations

from msgspec import Struct

_BPS = 10_000  # basis points in one


class FeeSchedule(Struct, frozen=True, kw_only=True):
    """What the platform takes from the merchant, and what the processor takes from the platform."""

    platform_bps: int = 150
    processor_bps: int = 60


def fee_minor(amount_minor: int, bps: int) -> int:
    """The fee on an amount, rounded half up to a whole minor unit; 0 when it rounds to nothing."""
    return (amount_minor * bps + _BPS // 2) // _BPS

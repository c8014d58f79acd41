"""Fees of a capture, in integer arithmetic only."""

from __future__ import annotations

from msgspec import Struct

_BPS = 10_000  # basis points in one


class FeeSchedule(Struct, frozen=True, kw_only=True):
    """What the platform takes from the merchant, and what the processor takes from the platform.

    A refund does not return the platform's fee: the service was rendered, and the merchant gives back the full amount
    out of what it has. With ``returns_platform_fee`` the refund that succeeds also pays the merchant the fee on what
    has been refunded so far, reckoned on the sum, so that parts never return more than the whole; a refund that fails
    later takes it back. The processor's fee and the fee of a dispute are never returned.
    """

    platform_bps: int = 150
    processor_bps: int = 60
    returns_platform_fee: bool = False

    def merchant_share(self, captured_minor: int) -> int:
        """What the merchant gets of a captured amount."""
        return captured_minor - fee_minor(captured_minor, self.platform_bps)

    def returned_fee(self, refunded_before_minor: int, refunded_after_minor: int) -> int:
        """The fee that goes back when the refunded sum grows (below zero: that is taken again when it shrinks)."""
        if not self.returns_platform_fee:
            return 0
        return fee_minor(refunded_after_minor, self.platform_bps) - fee_minor(refunded_before_minor, self.platform_bps)


def fee_minor(amount_minor: int, bps: int) -> int:
    """The fee on an amount, rounded half up to a whole minor unit; 0 when it rounds to nothing."""
    return (amount_minor * bps + _BPS // 2) // _BPS

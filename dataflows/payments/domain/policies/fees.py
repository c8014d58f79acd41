"""Fees of a capture, in integer arithmetic only, and the published terms that hold for a payment.

A payment keeps the terms that were in force when it was made. They are not stored with it: versions never change and
are published before they are in force, so a later look finds the same terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from schemas.payments.policies import fee_policy
from schemas.payments.policies.fee_policy import FeePolicy

_BPS = 10_000  # basis points in one


class FeeSchedule(Struct, frozen=True, kw_only=True):
    """What the platform takes from the merchant, and the processor from the platform.

    A refund does not return the platform's fee: the service was rendered, and the merchant gives back the full amount.
    With ``returns_platform_fee`` a refund that succeeds also returns the fee on what it refunds. The fee is computed on
    the sum refunded so far, and is never above what the captures were charged, so parts never return more than the
    whole; a refund that fails later takes it back. The processor's fee and the fee of a dispute
    are never returned.
    """

    platform_bps: int = 150
    platform_fixed_minor: int = 0  # of each capture; no refund returns it
    processor_bps: int = 60
    returns_platform_fee: bool = False

    def merchant_share(self, captured_minor: int) -> int:
        """The merchant's share of a captured amount."""
        return captured_minor - self.platform_fee(captured_minor)

    def platform_fee(self, captured_minor: int) -> int:
        """The platform's fee on a captured amount, never more than the amount."""
        return min(captured_minor, fee_minor(captured_minor, self.platform_bps) + self.platform_fixed_minor)

    def returned_fee(self, refunded_before_minor: int, refunded_after_minor: int, captured_minor: Iterable[int]) -> int:
        """The fee that is returned when the refunded sum grows; below zero, and taken again, when it shrinks.

        ``captured_minor``: each capture was rounded by itself, so their fees may be less than the fee on their sum.
        """
        if not self.returns_platform_fee:
            return 0
        taken = sum(fee_minor(captured, self.platform_bps) for captured in captured_minor)
        before, after = (fee_minor(sum_, self.platform_bps) for sum_ in (refunded_before_minor, refunded_after_minor))
        return min(after, taken) - min(before, taken)


class FeeVersion(Struct, frozen=True):
    """A published policy. Of the versions in force at a time, the newest counts."""

    version: int
    effective_at: int  # microseconds
    policy: FeePolicy


def read_version(version: int, body: str) -> FeeVersion:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    policy = fee_policy.read(body)
    return FeeVersion(version, policy.effective_at_us, policy)


def schedule_of(
    versions: tuple[FeeVersion, ...], merchant: str, currency: str, made_at: int, otherwise: FeeSchedule
) -> FeeSchedule:
    """The schedule of a payment made at that time; ``versions`` are newest first, ``otherwise`` holds before all."""
    for published in versions:
        if published.effective_at <= made_at:
            terms = published.policy.terms_of(merchant)
            return structs.replace(
                otherwise,
                platform_bps=terms.bps,
                platform_fixed_minor=terms.fixed.get(currency, 0),
                returns_platform_fee=terms.refunds_return == "bps",
            )
    return otherwise


def fee_minor(amount_minor: int, bps: int) -> int:
    """The fee on an amount, rounded half up to a whole minor unit, which may be 0."""
    return (amount_minor * bps + _BPS // 2) // _BPS

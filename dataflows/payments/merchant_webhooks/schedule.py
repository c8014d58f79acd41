"""When a delivery is tried again, and when it is given up. Pure: the dice are handed in."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from schemas.payments import limits

#: the receiver says that it will never want webhooks again (Standard Webhooks)
GONE: Final = HTTPStatus.GONE
_TAKEN: Final = range(200, 300)


def is_taken(status: int | None) -> bool:
    """Whether the receiver has it. A redirect is no receipt: it is never followed."""
    return status in _TAKEN


def wait_s(tries: int, dice: float) -> float | None:
    """Seconds until the next try after ``tries`` failed ones; None when there is none. ``dice`` is from 0 to 1."""
    if tries >= len(limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S):
        return None
    wait = limits.MERCHANT_WEBHOOK_RETRY_SCHEDULE_S[tries]
    return wait * (1 + limits.MERCHANT_WEBHOOK_JITTER * (2 * dice - 1))

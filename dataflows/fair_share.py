"""When a caller has more than its fair share of something. Pure."""

from __future__ import annotations

from dataflows import limits


def unfair_share(callers: int) -> float:
    """A share of one that is more than three fair ones of so many callers.

    A share above a half is always more than fair; one below a fifth never is.
    """
    return max(limits.NOISE_SHARE_MIN, min(limits.NOISE_FAIR_SHARES / callers, limits.NOISE_SHARE_MAX))

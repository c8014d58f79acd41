"""Policies that decide without counting, before any counter is touched: block lists and allow lists.

As everywhere, the most specific policy of each level governs. If one denies, the key is refused whatever the others
say. If one is unlimited, its level is dropped, and the remaining levels are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.spending.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.policy.level import Level


def verdict(levels: Sequence[Level]) -> tuple[Decision | None, Sequence[Level]]:
    """The decision that the lists make, if any, and the levels to count; a shadow policy decides nothing."""
    real = [level for level in levels if not level.policy.shadow]
    for level in real:
        if level.policy.algorithm == "deny":
            return _decided(level, allowed=False), ()
    counted = [level for level in levels if level.policy.is_counted]
    unlimited = next((level for level in real if not level.policy.is_counted), None)
    if counted or unlimited is None:
        return None, counted
    return _decided(unlimited, allowed=True), ()


def shadows_that_deny(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The block lists in shadow mode: they would refuse every request of the key."""
    return tuple(level for level in levels if level.policy.shadow and level.policy.algorithm == "deny")


def _decided(level: Level, *, allowed: bool) -> Decision:
    return Decision(
        allowed=allowed,
        remaining=-1 if allowed else 0,
        reset_ms=0,
        retry_after_ms=0 if allowed else -1,
        policy_id=level.id_,
        policy_version=level.version,
    )

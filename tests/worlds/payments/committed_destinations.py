"""Payout destinations of a committed history: one of each way that they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.worlds.committed_store import Commit


def destinations_used(act: Callable[..., None], commits: Sequence[Commit], merchant: str) -> None:
    """One that is disabled, one that may be used earlier, one that waits. ``act`` appends to ``commits``."""
    for n in range(3):
        bank = {"name": f"Hausbank {n}", "account_number": "AT611904300234573201", "bank_code": None}
        act("create_payout_destination", merchant, bank, scope=merchant)
        registered = commits[-1].destination
        assert registered is not None
        named: dict[str, Any] = {"destination": registered.id}
        if n == 0:
            act("disable_payout_destination", merchant, named, scope=merchant)
        elif n == 1:
            act("allow_payout_destination", merchant, named | {"reason": "r"})

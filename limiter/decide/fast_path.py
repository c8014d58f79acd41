"""Decides without the store: from leases, or by a refusal that still holds. Nothing here waits.

Source: reference limiter 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from limiter.decide import local_decisions
from limiter.spending.decision import UNLIMITED, Decision
from limiter.spending.spender import PlainSpender, Spender
from limiter.store.lease_clock import lease_clock_ns
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.decide.identities import Identities
    from limiter.frames.frames import Named
    from limiter.spending.buckets import Bucket
    from limiter.spending.fields import Identity
    from limiter.spending.key_state import KeyState
    from limiter.stream.decisions import Recorder, Shadow

_COST_MAX: Final = limits.LIMIT_COST_MAX
_NS_PER_US: Final = 1_000


def otherwise_over(
    identities: Identities,
    under_way: dict[Identity, Any],
    recorder: Recorder,
    refill_soon: Callable[[Bucket], None],
) -> Callable[[KeyState, int, str | None], Decision | None]:
    """Decides what the single lease of a key does not decide; None if the store must be asked."""

    def otherwise(key: KeyState, cost: int, request_id: str | None) -> Decision | None:
        """Decides repetitions, keys of several levels, refusals, and what policies decide without counting."""
        if not 0 <= cost <= _COST_MAX:
            return None
        decided: Decision | None
        if not key.leased:
            decided = UNLIMITED if key.lists and not key.buckets and key.verdict is None else key.verdict
            if decided is not None:
                recorder.record(key.name, cost, decided, shadows=key.lists)
            return decided
        if request_id is not None:
            identity = (key.name, request_id)
            if identity in under_way or identity in identities.doubtful:
                return None
            known = identities.find(key, request_id)
            if known is not None:
                decided = local_decisions.repeated(key, cost, known)
                recorder.record(key.name, cost, decided, identity=request_id)
                return decided
        now = lease_clock_ns()
        shadows: list[Shadow] = [*key.lists]
        decided = local_decisions.spent_of_all(key, cost, now, refill_soon, shadows)
        decided = decided or local_decisions.refused(key, cost, now, shadows)
        if decided is None:
            return None
        if decided.allowed and request_id is not None:
            identities.keep(key, request_id, cost, decided)
        recorder.record(key.name, cost, decided, key.buckets, identity=request_id, shadows=shadows)
        return decided

    return otherwise


def fast_path(
    keys: dict[Named, KeyState],
    identities: Identities,
    under_way: dict[Identity, Any],
    recorder: Recorder,
    refill_soon: Callable[[Bucket], None],
    spender: type[PlainSpender] = Spender,
) -> PlainSpender:
    """The fast path over these parts: the spender decides by leases, ``otherwise`` decides the rest."""
    return spender(
        keys,
        identities.spent,
        under_way,
        identities.doubtful,
        recorder.ring,
        recorder.wall_offset_ns // _NS_PER_US,
        Decision,
        refill_soon,
        otherwise_over(identities, under_way, recorder, refill_soon),
    )

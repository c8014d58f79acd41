"""Makes a limiter's questions about its buckets and takes in the store's answers. Pure but for the buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from limiter.spending.decision import UNLIMITED, Decision
from limiter.store import store

if TYPE_CHECKING:
    from limiter.spending.buckets import Bucket
    from limiter.spending.key_state import KeyState

_US_PER_MS: Final = 1_000
_NS_PER_US: Final = 1_000
_LEASE_CAUTION: Final = 0.999  # a lease ends here a little earlier than at the store
_DENIAL_KEPT_NS: Final = 250_000_000  # a settled lease may free quota earlier than the store could know
_NEVER: Final = -(2**62)
_WANT: Final = slice(56, 64)  # of packed terms
_NO_LEASE: Final = bytes(8)


def asked_terms(bucket: Bucket, cost: int, now_ns: int, leased: bool) -> bytes:
    """The terms to ask under: with a lease if demand deserves one and none is held or asked for."""
    bucket.saw(cost, now_ns)
    if not leased:
        return bucket.plain_terms
    if bucket.lease_id and (now_ns >= bucket.lease_ends_ns or bucket.left + bucket.held < cost):
        bucket.end_lease()
    elif bucket.account is not None and bucket.left < cost:
        bucket.account.hurry()
    want = 0 if bucket.lease_id or bucket.asking else bucket.wanted(now_ns)
    bucket.asking = bucket.asking or want > 0
    return bucket.level.packed_terms(want) if want else bucket.plain_terms


def asks_for_lease(packed: bytes) -> bool:
    """Whether these terms ask for a lease."""
    return packed[_WANT] != _NO_LEASE


def lease_end_ns(asked_ns: int, lease_us: int) -> int:
    """When a lease ends here: counted from before it was asked for, so never later than at the store."""
    return asked_ns + int(lease_us * _NS_PER_US * _LEASE_CAUTION)


def shadows_that_refuse(key: KeyState, answer: list[int]) -> list[Bucket]:
    """The levels in shadow mode that would have refused a request that was just decided for the first time."""
    if key.real is key.buckets or answer[0] not in (store.OK, store.DENIED):
        return []
    waits = answer[3 :: store.ROW]
    return [b for b, wait in zip(key.buckets, waits, strict=False) if b.level.policy.shadow and wait]


def taken_in(key: KeyState, cost: int, answer: list[int], asked_ns: int, lease_id: bytes, epoch: int) -> Decision:
    """Takes in the answer for every bucket. The decision is of the one with the longest wait, or with least left."""
    code = answer[0]
    least: tuple[int, Bucket, int] | None = None
    rows = len(answer) // store.ROW  # a repeated answer may cover fewer policies than there are now
    for at, bucket in enumerate(key.buckets[:rows]):
        available, reset_us, retry_us, _, granted, lease_us = answer[1 + at * store.ROW : 1 + (at + 1) * store.ROW]
        bucket.remaining, bucket.reset_ms = available + bucket.held, -(-reset_us // _US_PER_MS)
        if granted:
            bucket.begin_lease(lease_id, granted, lease_end_ns(asked_ns, lease_us), epoch)
        is_shadow = bucket.level.policy.shadow
        if retry_us and (code == store.DENIED or (is_shadow and code == store.OK)):
            kept_ns = _DENIAL_KEPT_NS if retry_us < 0 else min(_DENIAL_KEPT_NS, retry_us * _NS_PER_US)
            bucket.deny_until_ns, bucket.deny_cost = asked_ns + kept_ns, cost
            bucket.deny_retry_ns = -1 if retry_us < 0 else asked_ns + retry_us * _NS_PER_US
            bucket.end_lease()  # one level of several: the store now lacks what it holds
        if is_shadow:
            continue
        weight = _NEVER if retry_us < 0 else -retry_us if retry_us else available
        if least is None or weight < least[0]:
            least = (weight, bucket, retry_us)
    if least is None:
        return UNLIMITED  # only shadow policies govern the key
    _, bucket, retry_us = least
    return Decision(
        allowed=code != store.DENIED,
        remaining=bucket.remaining + bucket.left,
        reset_ms=bucket.reset_ms,
        retry_after_ms=-1 if retry_us < 0 else -(-retry_us // _US_PER_MS),
        policy_id=bucket.id_,
        policy_version=bucket.version,
        duplicate=code == store.DUPLICATE,
    )

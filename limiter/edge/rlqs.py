"""Envoy's RateLimitQuotaService v3: a stream of usage reports, answered with quota that Envoy then enforces by itself.

The entries ``tenant``, ``user``, ``route`` and ``remote_address`` of a bucket's id make the limit key, as in
RateLimitService. An assignment is a token bucket that does not refill (``limiter/decide/quota_shares.py`` says when
there is another one); ALLOW_ALL where nothing limits a key, DENY_ALL where nothing is left. What nobody uses
is abandoned.

A report that no Envoy makes ends the stream with INVALID_ARGUMENT, before anything of it counts. A bucket's id is made
of what clients send: one that can be no key is refused alone, or any client could end the stream for all.
Envoy 1.40 reports 0 seconds elapsed for a new bucket, nothing at all when it has none, and knows whole seconds only.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc
from envoy.type.v3 import ratelimit_strategy_pb2, token_bucket_pb2
from prometheus_client import Gauge

from limiter.decide.quota_shares import Assignment, Share, told_ttl_s
from limiter.policy import keys
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from limiter.decide.limiter import Limiter
    from limiter.decide.quota_lender import QuotaLender

_RULES: Final = {
    "allow_all": ratelimit_strategy_pb2.RateLimitStrategy.ALLOW_ALL,
    "deny_all": ratelimit_strategy_pb2.RateLimitStrategy.DENY_ALL,
}
_ABSENT: Final = "-"
_NS_PER_S: Final = 1_000_000_000
_DAY_S: Final = 86_400  # to the next token: an assignment ends long before
_streams = Gauge("millrace_limiter_quota_streams", "Envoys that hold or ask for quota")
_buckets = Gauge("millrace_limiter_quota_buckets", "Buckets of all Envoys")

BucketId = tuple[tuple[str, str], ...]


class Usage(NamedTuple):
    """One bucket of a report."""

    id_: BucketId
    allowed: int
    denied: int


class _Bucket(NamedTuple):
    """A bucket of one Envoy; without a place its id says once and for all what it is answered."""

    place: tuple[str, str, str, str | None] | None
    fixed: Assignment | None
    share: Share


class RateLimitQuotaService(rlqs_pb2_grpc.RateLimitQuotaServiceServicer):  # type: ignore[misc] # generated, without types
    """Answers StreamRateLimitQuotas."""

    def __init__(self, limiter: Limiter, lender: QuotaLender) -> None:
        self._limiter = limiter
        self._lender = lender
        self._open = 0

    async def StreamRateLimitQuotas(self, _reports: Any, context: Any) -> None:  # noqa: N802 - the name of the protocol
        """One Envoy until it goes. What it holds then the store charges whole: it may be spending it."""
        if self._open >= limits.LIMIT_RLQS_STREAMS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams: ask another gateway")
        self._open += 1
        _streams.inc()
        envoy = _Envoy(self._limiter, self._lender)
        try:
            await _converse(envoy, context)
        except errors.Rejected as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.line)
        finally:
            self._open -= 1
            _streams.dec()
            _buckets.dec(len(envoy.buckets))


async def _converse(envoy: _Envoy, context: Any) -> None:
    """Answers every report, and tells what changes without one. Raises InvalidCommand."""
    is_first = True
    reading = asyncio.ensure_future(context.read())
    try:
        while True:
            done, _ = await asyncio.wait((reading,), timeout=limits.LIMIT_RLQS_TICK_S)
            told: list[Any] = []
            if done:
                report = reading.result()
                if report is grpc.aio.EOF:
                    return
                told = await envoy.report(usages(report, is_first=is_first))
                is_first = False
                reading = asyncio.ensure_future(context.read())
            told += await envoy.look_again()
            if told:
                await context.write(rlqs_pb2.RateLimitQuotaResponse(bucket_action=told))
    finally:
        reading.cancel()


class _Envoy:
    """The buckets of one stream."""

    def __init__(self, limiter: Limiter, lender: QuotaLender) -> None:
        self._limiter = limiter
        self._lender = lender
        self._policies = limiter.policies
        self._looked_ns = 0
        self.buckets: dict[BucketId, _Bucket] = {}

    async def report(self, found: list[Usage]) -> list[Any]:
        """The actions that a report brings."""
        return _joined(await asyncio.gather(*(self._reported(usage) for usage in found)))

    async def _reported(self, usage: Usage) -> list[Any]:
        now_ns = lease_clock_ns()
        bucket = self.buckets.get(usage.id_)
        if bucket is None:
            if len(self.buckets) >= limits.LIMIT_RLQS_BUCKETS_MAX:
                return [_abandoned(usage.id_)]
            bucket = self.buckets[usage.id_] = _made(usage.id_, now_ns)
            _buckets.inc()
        share = bucket.share
        share.report(usage.allowed, usage.denied, now_ns)
        if bucket.place is None:
            return self._fixed(usage.id_, bucket, now_ns) if share.needs(now_ns) else []
        key = self._limiter.governed(*bucket.place)
        self._lender.record(key, usage.allowed, usage.denied)
        await self._lender.settle(share)
        if share.needs(now_ns) or share.governing != self._lender.governing(key):
            return _told(usage.id_, await self._lender.lend(share, key))
        return []

    async def look_again(self) -> list[Any]:
        """Without a report: refusals that may be over, policies that changed, buckets that nobody uses."""
        now_ns = lease_clock_ns()
        if now_ns - self._looked_ns < limits.LIMIT_RLQS_TICK_S * _NS_PER_S:
            return []
        self._looked_ns = now_ns
        await asyncio.gather(*(self._lender.keep(share) for _, _, share in self.buckets.values() if share.has_moved))
        told = []
        for id_ in [id_ for id_, bucket in self.buckets.items() if bucket.share.is_over(now_ns)]:
            del self.buckets[id_]
            _buckets.dec()
            told.append(_abandoned(id_))
        changed, self._policies = self._policies is not self._limiter.policies, self._limiter.policies
        looked = [self._looked_at(id_, changed, now_ns) for id_ in self.buckets if changed or self._is_due(id_, now_ns)]
        return told + _joined(await asyncio.gather(*looked))

    def _is_due(self, id_: BucketId, now_ns: int) -> bool:
        bucket = self.buckets[id_]
        return bucket.place is not None and bucket.share.is_due(now_ns)

    async def _looked_at(self, id_: BucketId, changed: bool, now_ns: int) -> list[Any]:
        place, _, share = self.buckets[id_]
        if place is None:
            return []
        key = self._limiter.governed(*place)
        if share.is_due(now_ns) or (changed and share.governing != self._lender.governing(key)):
            return _told(id_, await self._lender.lend(share, key))
        return []

    def _fixed(self, id_: BucketId, bucket: _Bucket, now_ns: int) -> list[Any]:
        if bucket.fixed is not None:
            bucket.share.unpaid = 0
            bucket.share.assign(bucket.fixed, (), now_ns)
        return _told(id_, bucket.fixed)


def _told(id_: BucketId, made: Assignment | None) -> list[Any]:
    """What a response says of an assignment.

    Envoy 1.40 starts a token bucket as full as the one before it was, in proportion, or goes on with an equal one: an
    assignment would stay as empty as the one that it follows. A rule in between, in the same response, makes it full.
    """
    if made is None:
        return []
    if made.rule != "tokens":
        return [_assigned(id_, made.ttl_s, blanket_rule=_RULES[made.rule])]
    never = token_bucket_pb2.TokenBucket(
        max_tokens=made.tokens, tokens_per_fill={"value": 1}, fill_interval={"seconds": _DAY_S}
    )
    return [
        _assigned(id_, made.ttl_s, blanket_rule=_RULES["deny_all"]),
        _assigned(id_, made.ttl_s, token_bucket=never),
    ]


def _assigned(id_: BucketId, ttl_s: int, **strategy: Any) -> Any:
    action = _action(id_)
    action.quota_assignment_action.assignment_time_to_live.seconds = ttl_s
    action.quota_assignment_action.rate_limit_strategy.MergeFrom(ratelimit_strategy_pb2.RateLimitStrategy(**strategy))
    return action


def usages(report: Any, *, is_first: bool) -> list[Usage]:
    """What a report says, all of it well-formed; None is one that cannot be read. Raises InvalidCommand."""
    if report is None:
        raise _invalid("report", "must be an envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports")
    if is_first and not report.domain:
        raise _invalid("domain", "must be given in the first report")
    if len(report.bucket_quota_usages) > limits.LIMIT_RLQS_BUCKETS_MAX:
        raise _invalid("bucket_quota_usages", f"must be at most {limits.LIMIT_RLQS_BUCKETS_MAX}")
    found = {}
    for usage in report.bucket_quota_usages:
        id_ = tuple(sorted(usage.bucket_id.bucket.items()))
        if not id_ or id_ in found:
            raise _invalid("bucket_id", "must be given, and once in a report")
        if usage.time_elapsed.seconds < 0 or usage.time_elapsed.nanos < 0:
            raise _invalid("time_elapsed", "must not be negative")
        if max(usage.num_requests_allowed, usage.num_requests_denied) > limits.LIMIT_COST_MAX:
            raise _invalid("num_requests", f"must be from 0 to {limits.LIMIT_COST_MAX}")
        found[id_] = Usage(id_, usage.num_requests_allowed, usage.num_requests_denied)
    return list(found.values())


def _invalid(field: str, reason: str) -> errors.InvalidCommand:
    return errors.InvalidCommand([{"field": field, "reason": reason}])


def _made(id_: BucketId, now_ns: int) -> _Bucket:
    parts = dict(id_)
    ttl_s = told_ttl_s(limits.LIMIT_RLQS_LEASE_MS * 1_000_000, 0)
    if "tenant" not in parts:
        return _Bucket(None, Assignment("allow_all", ttl_s), Share(now_ns))
    place = (parts["tenant"], parts.get("user", _ABSENT), parts.get("route", _ABSENT), parts.get("remote_address"))
    try:
        keys.key_parts(*place)
    except errors.InvalidCommand:
        return _Bucket(None, Assignment("deny_all", ttl_s), Share(now_ns))
    return _Bucket(place, None, Share(now_ns))


def _action(id_: BucketId) -> Any:
    action = rlqs_pb2.RateLimitQuotaResponse.BucketAction()
    action.bucket_id.bucket.update(dict(id_))
    return action


def _abandoned(id_: BucketId) -> Any:
    action = _action(id_)
    action.abandon_action.SetInParent()
    return action


def _joined(actions: Iterable[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(actions))

"""Envoy's RateLimitService v3 over gRPC: the limiter for proxies that speak it.

The descriptor entries ``tenant``, ``user`` and ``route`` make the limit key; a part that is missing is ``-``; without a
tenant there is no key, and the answer is OK. ``remote_address`` (or ``masked_remote_address``) is the client's network.
Every descriptor is read before the first is charged: a call with one that is malformed charges none. Then each is
decided for itself, and the call is over the limit when one is; what others of the call were charged stays charged, as
in Envoy's own service, and a retry does not charge it again. The request identity is the metadata ``x-request-id`` of
the call, and the place of the descriptor in it. Every status names the policy that decided, so that Envoy can tell its
clients (``x-ratelimit-*``), and a refusal says when to come again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped] # without types

from limiter.edge.asgi import retry_after_s, window_s
from limiter.policy import keys
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.decide.limiter import Limiter
    from limiter.spending.decision import Decision
    from schemas.limiter.limit_policy import LimitPolicy

_OK: Final = rls_pb2.RateLimitResponse.OK
_OVER_LIMIT: Final = rls_pb2.RateLimitResponse.OVER_LIMIT
_MS_PER_S: Final = 1_000
_NS_PER_MS: Final = 1_000_000
_ABSENT: Final = "-"
_IS_NEGATIVE_HITS: Final = 4  # of a descriptor; Envoy has it since 1.38, the messages that we read it by do not
_READ: Final = frozenset((*keys.PARTS, "remote_address", "masked_remote_address"))
_UINT32_MAX: Final = 2**32 - 1
_UNITS: Final = {
    1: rls_pb2.RateLimitResponse.RateLimit.SECOND,
    60: rls_pb2.RateLimitResponse.RateLimit.MINUTE,
    3_600: rls_pb2.RateLimitResponse.RateLimit.HOUR,
    86_400: rls_pb2.RateLimitResponse.RateLimit.DAY,
}
_STORE_SHARE: Final = 0.8  # of what Envoy waits
_BEFORE_PLACE: Final = "\x1f"  # no metadata can hold it: no call's identity is that of another's later descriptor


class _Asked(NamedTuple):
    """One descriptor; None instead of it has no tenant."""

    tenant: str
    user: str
    route: str
    cost: int
    network: str | None


class RateLimitService(rls_pb2_grpc.RateLimitServiceServicer):  # type: ignore[misc] # generated, without types
    """Answers ShouldRateLimit."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def ShouldRateLimit(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the protocol
        """One decision for each descriptor; over the limit when one is."""
        identity = _identity(dict(context.invocation_metadata() or ()).get("x-request-id"))
        response = rls_pb2.RateLimitResponse(overall_code=_OK)
        waits_s: list[int | None] = []
        try:
            for place, asked in enumerate(_all_asked(request)):
                status = response.statuses.add()
                status.code = _OK
                if asked is None:
                    continue
                tenant, user, route, cost, network = asked
                named, within_s = _placed(identity, place), _patience_s(context)
                decided = await self._limiter.check(tenant, user, route, cost, named, network, within_s=within_s)
                _render(decided, self._limiter.policies.by_id(decided.policy_id), status)
                if not decided.allowed:
                    response.overall_code = _OVER_LIMIT
                    waits_s.append(retry_after_s(decided))
        except errors.Rejected as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.line)
        if waits_s and None not in waits_s:  # of one that never passes there is nothing to wait for
            response.response_headers_to_add.add(key="retry-after", value=str(max(w for w in waits_s if w)))
        return response


def _all_asked(request: Any) -> list[_Asked | None]:
    """Every descriptor of a call, all of them well-formed; None is one that cannot be read. Raises InvalidCommand."""
    if request is None:
        raise _invalid("request", "must be an envoy.service.ratelimit.v3.RateLimitRequest")
    if len(request.descriptors) > limits.LIMIT_DESCRIPTORS_MAX:
        raise _invalid("descriptors", f"must be at most {limits.LIMIT_DESCRIPTORS_MAX}")
    return [_asked(request, descriptor) for descriptor in request.descriptors]


def _asked(request: Any, descriptor: Any) -> _Asked | None:
    parts: dict[str, str] = {}
    for entry in descriptor.entries:
        if entry.key in parts:
            raise _invalid(entry.key, "must be given once in a descriptor")
        if entry.key in _READ:
            parts[entry.key] = entry.value
    cost = _cost(request, descriptor)
    unknown = UnknownFieldSet(descriptor)
    if len(unknown) and any(field.field_number == _IS_NEGATIVE_HITS and field.data for field in unknown):
        raise _invalid("is_negative_hits", "must be false: nothing is given back here, and nothing was charged")
    if cost > limits.LIMIT_COST_MAX:
        raise _invalid("hits_addend", f"must be from 0 to {limits.LIMIT_COST_MAX}")
    if "tenant" not in parts:
        return None
    network = parts.get("remote_address") or parts.get("masked_remote_address")
    asked = _Asked(parts["tenant"], parts.get("user", _ABSENT), parts.get("route", _ABSENT), cost, network)
    keys.key_parts(asked.tenant, asked.user, asked.route, network)
    return asked


def _invalid(field: str, reason: str) -> errors.InvalidCommand:
    return errors.InvalidCommand([{"field": field, "reason": reason}])


def _placed(identity: str | None, place: int) -> str | None:
    """Descriptors of one call may name one key: each is charged under an identity of its own."""
    return f"{identity}{_BEFORE_PLACE}{place}" if identity and place else identity


def _patience_s(context: Any) -> float | None:
    """How long the store may take: what Envoy still waits, but for what the answer needs; None: it has not said."""
    left_s = context.time_remaining()
    return None if left_s is None else max(left_s * _STORE_SHARE, 0.0)


def _identity(given: str | bytes | None) -> str | None:
    """A request identity of bounded length; the proxy's clients choose theirs."""
    if not given:
        return None
    text = given if isinstance(given, str) else given.decode(errors="replace")
    return text if len(text) <= limits.LIMIT_REQUEST_ID_LENGTH_MAX else hashlib.sha256(text.encode()).hexdigest()


def _cost(request: Any, descriptor: Any) -> int:
    if descriptor.HasField("hits_addend"):
        return int(descriptor.hits_addend.value)
    return int(request.hits_addend) or 1


def _render(decided: Decision, policy: LimitPolicy | None, status: Any) -> None:
    status.code = _OK if decided.allowed else _OVER_LIMIT
    if policy is None or (decided.allowed and not policy.is_counted):
        return  # nothing governs the key, or nothing is counted
    status.limit_remaining = min(max(decided.remaining, 0), _UINT32_MAX)
    waits = not decided.allowed and decided.retry_after_ms >= 0
    seconds, rest = divmod(max(decided.retry_after_ms if waits else decided.reset_ms, 0), _MS_PER_S)
    status.duration_until_reset.seconds = seconds
    status.duration_until_reset.nanos = rest * _NS_PER_MS
    if policy.is_counted and not decided.degraded:  # without the store nobody knows what is left
        limit = status.current_limit
        limit.name, limit.requests_per_unit = policy.policy_id, min(policy.capacity, _UINT32_MAX)
        limit.unit = _unit(policy)


def _unit(policy: LimitPolicy) -> Any:
    """Envoy knows some windows by name; of the others it tells the limit alone."""
    unknown = rls_pb2.RateLimitResponse.RateLimit.UNKNOWN
    return unknown if policy.algorithm == "concurrency" else _UNITS.get(window_s(policy), unknown)

"""Envoy's RateLimitService v3 over gRPC: the limiter for proxies that speak it.

The descriptor entries ``tenant``, ``user`` and ``route`` make the limit key; a part that is missing is ``-``; without a
tenant there is no key, and the answer is OK. Every descriptor must be allowed. The request identity is the metadata
``x-request-id`` of the call.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

from schemas import errors, limits

if TYPE_CHECKING:
    from limiter.decision import Decision
    from limiter.limiter import Limiter

_OK: Final = rls_pb2.RateLimitResponse.OK
_OVER_LIMIT: Final = rls_pb2.RateLimitResponse.OVER_LIMIT
_MS_PER_S: Final = 1_000
_NS_PER_MS: Final = 1_000_000
_ABSENT: Final = "-"
_UINT32_MAX: Final = 2**32 - 1


class RateLimitService(rls_pb2_grpc.RateLimitServiceServicer):  # type: ignore[misc] # generated, without types
    """Answers ShouldRateLimit."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def ShouldRateLimit(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the protocol
        """One decision for each descriptor; over the limit when one is."""
        identity = _identity(dict(context.invocation_metadata() or ()).get("x-request-id"))
        response = rls_pb2.RateLimitResponse(overall_code=_OK)
        try:
            for descriptor in request.descriptors:
                entries = {entry.key: entry.value for entry in descriptor.entries}
                status = response.statuses.add()
                status.code = _OK
                if "tenant" not in entries:
                    continue
                decided = await self._limiter.check(
                    entries["tenant"],
                    entries.get("user", _ABSENT),
                    entries.get("route", _ABSENT),
                    _cost(request, descriptor),
                    identity,
                )
                _render(decided, status)
                if not decided.allowed:
                    response.overall_code = _OVER_LIMIT
        except errors.Rejected as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.public)
        return response


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


def _render(decided: Decision, status: Any) -> None:
    status.code = _OK if decided.allowed else _OVER_LIMIT
    status.limit_remaining = min(max(decided.remaining, 0), _UINT32_MAX)
    if not decided.allowed:
        wait_ms = decided.retry_after_ms if decided.retry_after_ms >= 0 else decided.reset_ms
        seconds, rest = divmod(max(wait_ms, 0), _MS_PER_S)
        status.duration_until_reset.seconds = seconds
        status.duration_until_reset.nanos = rest * _NS_PER_MS

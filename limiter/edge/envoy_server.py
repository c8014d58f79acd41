"""The gRPC server of Envoy's two services: so many calls at once, and bytes that are no message are the caller's fault.

gRPC itself answers what it cannot read with UNKNOWN, which proxies take for a fault of the limiter, and strangers read
names of our classes in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from envoy.service.rate_limit_quota.v3 import rlqs_pb2
from envoy.service.ratelimit.v3 import rls_pb2
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from limiter.edge.rlqs import RateLimitQuotaService
from limiter.edge.rls import RateLimitService
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.decide.limiter import Limiter
    from limiter.decide.quota_lender import QuotaLender


def envoys_server(limiter: Limiter, lender: QuotaLender) -> grpc.aio.Server:
    """Both services, not started and without a port. Calls past the bound are RESOURCE_EXHAUSTED and charge nothing."""
    # gateways of one machine share the address: the kernel gives each connection to one that lives
    options = [("grpc.so_reuseport", 1)]
    server = grpc.aio.server(maximum_concurrent_rpcs=limits.LIMIT_ENVOY_CALLS_MAX, options=options)
    check = grpc.unary_unary_rpc_method_handler(
        RateLimitService(limiter).ShouldRateLimit,
        request_deserializer=_read(rls_pb2.RateLimitRequest),
        response_serializer=rls_pb2.RateLimitResponse.SerializeToString,
    )
    stream = grpc.stream_stream_rpc_method_handler(
        RateLimitQuotaService(limiter, lender).StreamRateLimitQuotas,
        request_deserializer=_read(rlqs_pb2.RateLimitQuotaUsageReports),
        response_serializer=rlqs_pb2.RateLimitQuotaResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(_name(rls_pb2, "RateLimitService"), {"ShouldRateLimit": check}),
            grpc.method_handlers_generic_handler(
                _name(rlqs_pb2, "RateLimitQuotaService"), {"StreamRateLimitQuotas": stream}
            ),
        )
    )
    return server


def _name(module: Any, service: str) -> str:
    return str(module.DESCRIPTOR.services_by_name[service].full_name)


def _read(message: Any) -> Callable[[bytes], Any]:
    """The message of some bytes; None, which the service refuses, when they are none."""

    def read(data: bytes) -> Any:
        try:
            return message.FromString(data)
        except DecodeError:
            return None

    return read

"""Which processor serves a payment: pure, versioned, explained. Nothing published means the default processor."""

from __future__ import annotations

from msgspec import Struct


class RoutingPolicy(Struct, frozen=True, kw_only=True):
    """One version of the rules; version 0 has none."""

    version: int = 0

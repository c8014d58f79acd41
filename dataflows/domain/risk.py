"""Risk rules: pure, versioned, explained. Nothing published lets every payment through."""

from __future__ import annotations

from msgspec import Struct


class RiskPolicy(Struct, frozen=True, kw_only=True):
    """One version of the rules; version 0 has none."""

    version: int = 0

"""What a probe found: nothing, or evidence; and whether that proves that a tenant can be reached by another."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """A probe that was carried out. What is away was not probed, and what only differs proves nothing."""

    probe: str
    evidence: str | None = None
    is_leak: bool = False

"""Schedules an owner's garbage collection: rarely, because it makes few cycles and keeps many objects alive.

Commands, decisions and rows are trees that die with their batch, by reference counts. With Python's defaults the
collector walked them again and again, which took a sixth of an owner's Python time (measured).
"""

from __future__ import annotations

import gc

from dataflows import limits


def collect_rarely() -> None:
    """Leaves the modules out of every later collection, and collects after many allocations only."""
    gc.collect()
    gc.freeze()
    older = limits.OWNER_COLLECT_GENERATIONS
    gc.set_threshold(limits.OWNER_COLLECT_ALLOCATIONS, older, older)

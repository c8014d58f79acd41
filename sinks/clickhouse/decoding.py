"""Settings of a process that decodes events by the hundred thousand."""

from __future__ import annotations

import gc
from typing import Final

_YOUNG_MAX: Final = 200_000
_THRESHOLDS: Final = (_YOUNG_MAX, 50, 1_000)


def collect_garbage_rarely() -> None:
    """Decoded events are many short-lived objects without cycles: measured, decoding then costs half as much."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)

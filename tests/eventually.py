"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

_INTERVAL_S = 0.02
#: how many times longer than on an idle machine to wait; costs nothing where the condition comes true
_PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))


def eventually(condition: Callable[[], Found | None], within_s: float = 10.0, *, what: str = "") -> Found:
    """The first truthy answer of ``condition``; an AssertionError failure inside counts as "not yet"."""
    within_s *= _PATIENCE
    deadline = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or 'condition'} not met within {within_s} s; last: {last!r}")
        time.sleep(_INTERVAL_S)

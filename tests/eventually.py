"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

#: how many times longer than on an idle machine to wait; costs nothing where the condition comes true. A test that hangs
#: ends by its timeout, however patient its waits are. Where workers run side by side the machine is busy with their tests
_PATIENCE: Final = float(os.environ.get("TEST_PATIENCE") or ("4" if "PYTEST_XDIST_WORKER" in os.environ else "1"))
#: a wait ends so long before its test is timed out, to say what it saw last
_REPORT_S: Final = 10.0
_INTERVAL_S: Final = 0.02
_INTERVAL_MAX_S: Final = 1.0
#: who has waited for long asks less often: each look is a connection or a query, on a machine that others need
_PART_OF_WAIT: Final = 0.1
_PART_OF_WAIT_MAX_S: Final = 0.1
_SHOWN_MAX: Final = 4_000

_test_ends_at = float("inf")


def patient(seconds: float) -> float:
    """The limit of a wait: as long as this machine needs, and over before its test is timed out."""
    left = _test_ends_at - _REPORT_S - time.monotonic()
    return max(min(seconds * _PATIENCE, left), 0.0)


def begin_test(timeout_s: float) -> None:
    """A test begins, which is killed after so long: its waits give up before that, and tell why."""
    global _test_ends_at  # noqa: PLW0603 - there is one running test in a process
    _test_ends_at = time.monotonic() + timeout_s


def eventually(condition: Callable[[], Found | None], within_s: float = 30.0, *, what: str = "") -> Found:
    """The first truthy answer of ``condition``; an AssertionError failure inside counts as "not yet".

    Asking takes at most half of the time, so that what is waited for has the other half of a busy machine; and it is
    seldom after a while, at the price of a tenth of a second.
    """
    began = time.monotonic()
    deadline = began + patient(within_s)
    while True:
        asked = time.monotonic()
        try:
            last = condition()
            if last:
                return last
            seen = repr(last)
        except AssertionError as error:
            seen = str(error) or repr(error)
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"{what or 'condition'} not met within {now - began:.0f} s; last: {seen[:_SHOWN_MAX]}")
        by_wait = min(_PART_OF_WAIT * (now - began), _PART_OF_WAIT_MAX_S)
        time.sleep(min(max(_INTERVAL_S, now - asked, by_wait), _INTERVAL_MAX_S))


def becomes(read: Callable[[], object], wanted: object, within_s: float = 30.0, *, what: str = "") -> None:
    """What is read is what is wanted, in the end; where it is not, the failure shows what was read last."""

    def equal() -> bool:
        found = read()
        if found != wanted:
            raise AssertionError(f"{found!r}, and not {wanted!r}")
        return True

    eventually(equal, within_s, what=what)

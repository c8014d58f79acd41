"""The alarm of pytest-timeout, where it would hit pytest itself."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """It does not ring while a failure is written down: that would end the worker, and with it the run, not the test.

    A busy machine needs a second for the source of a long traceback. After the last report nothing of the test runs.
    """
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        if left_s and call.when != "teardown":
            signal.setitimer(signal.ITIMER_REAL, left_s)

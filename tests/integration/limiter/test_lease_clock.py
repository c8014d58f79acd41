"""By which clock leases end, in a process that has a time of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SPENDERS = Path(__file__).parents[2] / "unit" / "limiter" / "test_limiter_spending.py"
_COMPARES = ("a_lease_that_ended_is_not_spent", "a_record_has_the_time_and_the_place_of_its_lease")


def test_leases_end_by_a_clock_that_goes_on_in_sleep() -> None:
    """Where this machine may say that it slept for a day: both spenders compare, and write, by what leases end by."""
    slept = ["unshare", "--time", "--boottime", "86400", "--"]
    if not shutil.which("unshare") or subprocess.run([*slept, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no time of its own for a process here")
    told = "from limiter.store.lease_clock import lease_clock_ns as c; import time; print(c() - time.monotonic_ns())"
    ahead = subprocess.run([*slept, sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert int(ahead.stdout) > 86_000 * 10**9
    tests = [f"{_SPENDERS}::test_{one}" for one in _COMPARES]
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run([*slept, *run], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

"""A whole run of pytest for CI: a test that failed is judged again, alone; what then passes twice is told as FLAKY.

``python -m tests.rerun -n 3 --dist loadfile`` runs pytest with these arguments. Once all tests are done, each that failed runs
again in a process of its own, twice. It passes both times: the last lines say ``FLAKY <test>``, and the exit is green.
Everything else is red: another failure, more failures than RERUN_MAX, a worker that crashed, tests that cannot be collected.
The last line is ``N passed, M failed``. This is the only place where a test is tried again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.gate import RUN_SEED
from tests.outcomes import Outcomes, read

#: more failures than this are no accident: the run is red at once
RERUN_MAX: Final = 10
_TIMES: Final = 2
#: a test that runs alone ends by its own timeout; this bounds its imports and servers too
_ALONE_S_MAX: Final = 420
_PASSED, _FAILED = 0, 1  # exit statuses of pytest; every other one says that the run itself went wrong
#: what a process of one run tells the others; a run that begins anew must not see it
_OF_ONE_RUN: Final = (
    "MILLRACE_TEST_FOLDER",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_XDIST_TESTRUNUID",
)


class Run(NamedTuple):
    """How a process of pytest ended, and what it printed if that was kept."""

    status: int
    outcomes: Outcomes
    printed: str

    @property
    def passed(self) -> bool:
        """Nothing went wrong, in any test or apart from them."""
        return self.status == _PASSED and not self.outcomes.failed and not self.outcomes.broken

    @property
    def may_be_judged_again(self) -> bool:
        """Only tests failed, and few of them."""
        failed = len(self.outcomes.failed)
        return self.status == _FAILED and not self.outcomes.broken and 0 < failed <= RERUN_MAX


def run(arguments: list[str], *, kept: bool = False, within_s: float | None = None) -> Run:
    """Runs pytest in a process of its own, with the seed of this run and servers of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ONE_RUN}
    environment["MILLRACE_RUN_SEED"] = str(RUN_SEED)
    with tempfile.TemporaryDirectory(prefix="millrace-outcomes-") as folder:
        file, output = Path(folder) / "outcomes.json", Path(folder) / "output"
        command = [sys.executable, "-m", "pytest", *arguments, "-p", "tests.outcomes", "--outcomes", str(file)]
        with output.open("w") as log:
            try:
                status = subprocess.run(
                    command,
                    env=environment,
                    stdout=log if kept else None,
                    stderr=subprocess.STDOUT if kept else None,
                    timeout=within_s,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                log.write(f"not over within {within_s} s\n")
                status = -1
        return Run(status, read(file), output.read_text(errors="replace"))


def passes_alone(test: str) -> bool:
    """True when the test passes every time; prints what it says where it does not."""
    for number in range(1, _TIMES + 1):
        alone = run([test, "-p", "no:xdist"], kept=True, within_s=_ALONE_S_MAX)
        passed = alone.passed and alone.outcomes.passed == [test]
        _say(f"alone, {number} of {_TIMES}: {test} {'passed' if passed else 'failed'}")
        if not passed:
            _say("\n".join(f"| {line}" for line in alone.printed.splitlines()))  # no closing line of pytest is the last
            return False
    return True


def judge(whole: Run) -> int:
    """Prints the last lines; the exit status."""
    for wrong in whole.outcomes.broken:
        _say(f"RED {wrong}")
    if len(whole.outcomes.failed) > RERUN_MAX:
        _say(f"RED {len(whole.outcomes.failed)} tests failed: more than {RERUN_MAX} are not judged again")
    flaky: list[str] = []
    if whole.may_be_judged_again:
        _say(f"{len(whole.outcomes.failed)} failed: each runs again alone, {_TIMES} times")
        flaky = [test for test in whole.outcomes.failed if passes_alone(test)]
    green = whole.passed or (whole.may_be_judged_again and len(flaky) == len(whole.outcomes.failed))
    failed = len(whole.outcomes.failed) - len(flaky)
    if not green:
        failed = max(failed, len(whole.outcomes.broken), 1)  # a run that went wrong never reads as a good one
    for test in whole.outcomes.failed:
        if test not in flaky:
            _say(f"FAILED {test}")
    for test in flaky:
        _say(f"FLAKY {test}")
    _say(f"{len(whole.outcomes.passed) + len(flaky)} passed, {failed} failed")
    return 0 if green else 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(judge(run(sys.argv[1:])))

"""What failed is judged again alone: on small folders of tests that pass, fail, fail once, crash, hang or do not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.gate import matrix
from tests.rerun import RERUN_MAX
from tests.small_disk import small_disk

ROOT = Path(__file__).parents[3]
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
FAILS_ONCE = """
from pathlib import Path
def test_fails_once():
    tried = Path('tried')
    tries = int(tried.read_text()) if tried.exists() else 0
    tried.write_text(str(tries + 1))
    assert tries not in {fails_at}
"""
#: what a run must not leave to the next, and what it must
ENVIRONMENT = """
import os
from pathlib import Path
def test_environment():
    again = Path('seen').exists()
    seed, folder, worker = (os.environ.get(name) for name in ('MILLRACE_RUN_SEED', 'MILLRACE_TEST_FOLDER', 'PYTEST_XDIST_WORKER'))
    if not again:
        Path('seen').write_text(seed)
    assert again and seed == Path('seen').read_text() == '41' and folder is None and worker is None
"""
CRASHES = """
import os
def test_crashes():
    os.write(2, b'what went wrong')
    os._exit(3)
"""
TELLS_LAST_WORDS = "pytest_plugins = ['tests.last_words']"
HANGS = "import threading\ndef test_hangs(): threading.Event().wait()\n"
#: the alarm of its timeout would ring while its failure is written down
SLOW_TO_TELL = """
import threading
def test_is_slow_to_tell():
    __tracebackhide__ = lambda failure: threading.Event().wait(1.5)
    assert False
"""
DOES_NOT_IMPORT = "import nothing_of_this_name\n"
PYTEST_BREAKS = "def pytest_runtest_protocol(item): raise RuntimeError('broken')\n"
DISK_FULL = """
import os
def pytest_unconfigure(config): os.truncate(config.getoption('--outcomes'), 20)
"""
SKIPPED_ALONE = """
import os
import pytest
def test_skipped_alone():
    if 'PYTEST_XDIST_WORKER' not in os.environ:
        pytest.skip('alone')
    assert False
"""


class Ended(NamedTuple):
    status: int
    lines: list[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\naddopts = -p xdist -p timeout\n")
    (tmp_path / "test_passes.py").write_text(PASSES)
    return tmp_path


def run(folder: Path, **files: str) -> Ended:
    """A run of these files beside one that passes, as CI does it."""
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), "MILLRACE_RUN_SEED": "41", "MILLRACE_TEST_FOLDER": "of another run"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # dozens of processes start, and none needs the other plugins
    command = [sys.executable, "-m", "tests.rerun", "-n", "1", "--dist", "loadfile", "--max-worker-restart", "0"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout.splitlines())


@pytest.mark.proof
def test_all_pass(folder: Path) -> None:
    ended = run(folder)
    assert ended.status == 0
    assert ended.lines[-1] == "1 passed, 0 failed"


@pytest.mark.proof
def test_what_fails_once_is_flaky_and_runs_alone_with_the_same_seed_and_nothing_else_of_the_run(folder: Path) -> None:
    ended = run(folder, test_environment=ENVIRONMENT, test_once=FAILS_ONCE.format(fails_at={0}))
    assert ended.status == 0
    assert sorted(ended.lines[-3:-1]) == [
        "FLAKY test_environment.py::test_environment",
        "FLAKY test_once.py::test_fails_once",
    ]
    assert ended.lines[-1] == "3 passed, 0 failed"
    assert (folder / "tried").read_text() == "3"


def test_what_does_not_pass_both_times_is_red(folder: Path) -> None:
    """Fails always, fails once more, is skipped, hangs until its timeout or while it is told; what is flaky is still told."""
    twice = FAILS_ONCE.format(fails_at={0, 2}).replace("tried", "twice")
    once = FAILS_ONCE.format(fails_at={0})
    slow = {"conftest": "pytest_plugins = ['tests.alarm']", "test_slow": SLOW_TO_TELL}
    files = {
        "test_always": FAILS,
        "test_twice": twice,
        "test_skip": SKIPPED_ALONE,
        "test_hangs": HANGS,
        "test_once": once,
    }
    ended = run(folder, **files, **slow)
    assert ended.status == 1
    assert sorted(ended.lines[-7:-2]) == [
        "FAILED test_always.py::test_fails",
        "FAILED test_hangs.py::test_hangs",
        "FAILED test_skip.py::test_skipped_alone",
        "FAILED test_slow.py::test_is_slow_to_tell",
        "FAILED test_twice.py::test_fails_once",
    ]
    assert ended.lines[-2:] == ["FLAKY test_once.py::test_fails_once", "2 passed, 5 failed"]


@pytest.mark.parametrize(
    "files",
    matrix(
        [
            {"test_crashes": CRASHES, "conftest": TELLS_LAST_WORDS},
            {"test_broken": DOES_NOT_IMPORT},
            {"conftest": PYTEST_BREAKS},
            {"conftest": DISK_FULL},
        ],
        gate=lambda files: "test_crashes" in files,
    ),
)
def test_a_run_that_went_wrong_is_red_and_nothing_runs_again(folder: Path, files: dict[str, str]) -> None:
    ended = run(folder, **files, test_once=FAILS_ONCE.format(fails_at={0}))
    assert ended.status == 1
    assert not any(line.startswith(("alone", "FLAKY")) for line in ended.lines)
    assert any(line.startswith("RED") for line in ended.lines)
    assert ended.lines[-1].endswith(" failed")
    assert not ended.lines[-1].endswith(" 0 failed")
    assert ("test_crashes" not in files) or "what went wrong" in ended.lines


def test_a_run_that_the_disk_has_no_room_for_is_not_begun(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        environment = os.environ | {"PYTEST_DEBUG_TEMPROOT": str(disk)}
        del environment["MILLRACE_TEST_FOLDER"]
        command = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "loadfile", "tests/unit/test_slots.py"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert f"GiB in {disk}, which has 0.0 GiB free: make room" in done.stderr + done.stdout


@pytest.mark.proof
def test_many_failures_are_red_at_once(folder: Path) -> None:
    many = "".join(f"def test_fails_{number}(): assert False\n" for number in range(RERUN_MAX + 1))
    ended = run(folder, test_many=many)
    assert ended.status == 1
    assert not any(line.startswith("alone") for line in ended.lines)
    assert ended.lines[-1] == f"1 passed, {RERUN_MAX + 1} failed"

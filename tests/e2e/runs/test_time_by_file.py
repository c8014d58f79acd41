"""The record of a run: whole files that passed, kept for the next run, which compares and begins with the longest.

And what workers tell: what fails at once and whole, what passes in a word.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import matrix
from tests.time_by_file import slower

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests import failures, time_by_file
def pytest_configure(config):
    config.pluginmanager.register(time_by_file)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(failures.Failures(config))
def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: -time_by_file.known_seconds(config).get(item.nodeid.partition("::")[0], 0.0))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text("def test_1(): pass\ndef test_2(): pass\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-v", *arguments]
    environment |= {"PYTHONPATH": str(ROOT), "MILLRACE_PROOF": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def record(folder: Path) -> Path:
    return folder / ".pytest_cache/v/millrace/seconds_by_file_gate"


def test_slower_is_by_half_and_by_five_seconds() -> None:
    before = {"test_a.py": 1.0, "test_b.py": 100.0, "test_c.py": 10.0, "test_d.py": 9.0}
    now = {"test_a.py": 5.9, "test_b.py": 149.0, "test_c.py": 15.4, "test_new.py": 99.0}
    assert slower(before, now) == ["slower: test_c.py was 10.0 s, now 15.4 s"]


@pytest.mark.proof
def test_whole_files_that_passed_are_kept_and_parts_erase_nothing(folder: Path) -> None:
    assert "s in 3 files" in run(folder)
    assert set(json.loads(record(folder).read_text())) == {"test_a.py", "test_b.py", "test_c.py"}

    kept = {"test_a.py": 1.0, "test_b.py": 3.0, "test_c.py": 2.0, "test_gone.py": 1.0}
    record(folder).write_text(json.dumps(kept))
    for part in (["test_a.py::test_1"], ["-k", "test_1"], ["-x"], ["--collect-only"]):
        run(folder, *part)
        assert json.loads(record(folder).read_text()) == kept

    (folder / "test_b.py").write_text("def test_1(): assert False\n")
    run(folder, "test_a.py", "test_b.py")
    now = json.loads(record(folder).read_text())
    assert now["test_a.py"] < 1
    assert now == {"test_a.py": now["test_a.py"], "test_b.py": 3.0, "test_c.py": 2.0}, (
        "what failed, or did not run, is as before"
    )


@pytest.mark.parametrize("workers", matrix(["0", "1"], gate="1".__eq__))
def test_the_longest_file_is_first_also_in_a_worker(folder: Path, workers: str) -> None:
    record(folder).parent.mkdir(parents=True)
    record(folder).write_text(json.dumps({"test_a.py": 1.0, "test_b.py": 3.0, "test_c.py": 2.0}))
    printed = run(folder, "-n", workers, "--dist", "loadfile")
    first = [printed.index(f"test_{name}.py::test_1") for name in ("b", "c", "a")]
    assert first == sorted(first)


@pytest.mark.parametrize("workers", matrix(["0", "1"], gate="1".__eq__))
def test_a_failure_is_told_before_the_run_ends(folder: Path, workers: str) -> None:
    """A test and a set-up that fail: a line each, once, while others are still to come."""
    (folder / "test_a.py").write_text(
        "import pytest\n"
        "def test_1(): assert 1 == 2, 'first\\nsecond'\n"
        "@pytest.fixture\n"
        "def server(): raise ValueError('away')\n"
        "def test_2(server): pass\n"
    )
    lines = run(folder, "-n", workers, "--dist", "loadfile").splitlines()
    told = [line for line in lines if line.startswith("failed: ")]
    assert told == [
        "failed: test_a.py::test_1 (call): AssertionError: first",
        "failed: test_a.py::test_2 (setup): ValueError: away",
    ]
    assert lines.index(told[-1]) < next(number for number, line in enumerate(lines) if "= ERRORS =" in line)


OUTCOMES = """
import pytest, time
def test_passes(): print("heard")
def test_fails(): print("heard"); assert False
def test_skips(): pytest.skip("not here")
@pytest.mark.xfail
def test_is_known_to_fail(): assert False
@pytest.mark.xfail
def test_was_thought_to_fail(): print("heard")
@pytest.fixture
def begins_badly(): raise ValueError
def test_never_runs(begins_badly): pass
@pytest.fixture
def ends_badly(): yield; raise ValueError
def test_ends_badly(ends_badly): pass
@pytest.fixture
def takes_its_time(): time.sleep(0.02); yield; time.sleep(0.02)
def test_of_a_server(takes_its_time): pass
"""
TOLD = """
from pathlib import Path
from tests import xdist_reports
def pytest_configure(config):
    config.pluginmanager.register(xdist_reports)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Told())
class Told:
    def pytest_runtest_logreport(self, report):
        name, heard = report.nodeid.partition("::test_")[2], " heard" * ("heard" in report.capstdout)
        with Path("told").open("a") as told:
            told.write(f"{name} {report.when} {report.outcome}{heard}\\n")
"""
SHORT = """passes call passed
fails call failed heard
skips call skipped
is_known_to_fail call skipped
was_thought_to_fail call passed heard
never_runs setup failed
ends_badly call passed
ends_badly teardown failed
of_a_server setup passed
of_a_server call passed
of_a_server teardown passed
"""


def test_workers_tell_what_passes_in_a_word_and_everything_else_whole(folder: Path) -> None:
    """What a busy machine makes slow is told, too; with ``-rP`` everything is, and what passes is read."""
    (folder / "conftest.py").write_text(TOLD)
    (folder / "test_a.py").write_text(OUTCOMES)
    printed = run(folder, "-q", "-n", "1", "test_a.py")
    lines = (folder / "told").read_text().splitlines()
    assert [line for line in lines if line in SHORT.splitlines()] == SHORT.splitlines()
    assert {line.partition(" ")[2] for line in lines if line not in SHORT.splitlines()} <= {
        "setup passed",
        "teardown passed",
    }
    assert "1 failed, 3 passed, 1 skipped, 1 xfailed, 1 xpassed, 2 errors" in printed

    (folder / "told").unlink()
    run(folder, "-q", "-n", "1", "-rP", "test_a.py")
    assert (folder / "told").read_text().count("setup passed") == 7
    assert "passes call passed heard\n" in (folder / "told").read_text()

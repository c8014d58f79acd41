"""The record of a run: whole files that passed, kept for the next run, which compares and begins with the longest; and what fails, told at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.time_by_file import slower

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_longest_file_is_first_also_in_a_worker(folder: Path, workers: str) -> None:
    record(folder).parent.mkdir(parents=True)
    record(folder).write_text(json.dumps({"test_a.py": 1.0, "test_b.py": 3.0, "test_c.py": 2.0}))
    printed = run(folder, "-n", workers, "--dist", "loadfile")
    first = [printed.index(f"test_{name}.py::test_1") for name in ("b", "c", "a")]
    assert first == sorted(first)


@pytest.mark.parametrize("workers", ["0", "1"])
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

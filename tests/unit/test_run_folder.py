"""Where the folder of a run lies, and what becomes of one that a killed run left in memory."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests import run_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of the machine's memory, with room."""
    monkeypatch.setattr(run_folder, "_MEMORY", tmp_path)
    monkeypatch.setattr(run_folder, "_FOLDER_BYTES", 0)
    monkeypatch.setattr(run_folder, "_RUN_BYTES", 0)
    return tmp_path


def test_a_run_lies_in_memory_if_it_has_room_there(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_folder._free_memory() == memory
    monkeypatch.setattr(run_folder, "_RUN_BYTES", 2**60)
    assert run_folder._free_memory() is None
    monkeypatch.setattr(run_folder, "_RUN_BYTES", 0)
    monkeypatch.setattr(run_folder, "_FOLDER_BYTES", 2**60)
    assert run_folder._free_memory() is None


def test_where_there_is_no_memory_a_run_lies_on_the_disk(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_MEMORY", memory / "none")
    assert run_folder._free_memory() is None
    monkeypatch.setattr(run_folder, "_MEMORY", memory)
    monkeypatch.setattr(run_folder, "os", SimpleNamespace(access=lambda *_: False, W_OK=os.W_OK))
    assert run_folder._free_memory() is None


def test_what_a_killed_run_left_is_removed_and_of_one_that_goes_on_nothing(memory: Path) -> None:
    left, running, begins, other = (
        memory / name for name in ("millrace-run-1", "millrace-run-2", "millrace-run-3", "o")
    )
    for folder in (left, running, begins, other):
        folder.mkdir()
        (folder / "file").touch()
    for folder in (left, running, other):
        os.mkfifo(folder / "lifeline")
    held = os.open(running / "lifeline", os.O_RDWR)
    run_folder._free_memory()
    assert sorted(folder.name for folder in memory.iterdir()) == ["millrace-run-2", "millrace-run-3", "o"]
    os.close(held)
    run_folder._free_memory()
    assert sorted(folder.name for folder in memory.iterdir()) == ["millrace-run-3", "o"]

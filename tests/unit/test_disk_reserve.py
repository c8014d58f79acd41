"""The room that a home holds back on its disk."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from compose.stack.home import Home
from compose.supervise import disk_reserve
from compose.supervise.disk_reserve import DiskReserve
from ingress import limits

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 2**20


class Disk:
    """A disk that has as much room as a test says, looked at without a pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Home) -> None:
        monkeypatch.setattr(limits, "DISK_LOOK_INTERVAL_S", 0.0)
        monkeypatch.setattr(limits, "DISK_RESERVE_BYTES", 4 * _MIB)
        monkeypatch.setattr(disk_reserve, "_FULL_BYTES", _MIB)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free_bytes))
        self.free_bytes = 100 * _MIB
        self.reserve = DiskReserve(home)
        self.file = home.run / "reserve"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    home = Home(tmp_path)
    home.run.mkdir()
    return Disk(monkeypatch, home)


def test_room_is_held_back_given_back_and_taken_again(disk: Disk) -> None:
    assert disk.reserve.look() is None
    assert disk.file.stat().st_blocks * 512 >= 4 * _MIB, "a file with holes holds nothing"
    disk.free_bytes = _MIB - 1
    said = disk.reserve.look()
    assert said is not None
    assert "is full" in said
    assert not disk.file.exists()
    disk.free_bytes = 5 * _MIB  # its own room and a little: taking it would fill the disk again
    assert disk.reserve.look() is None
    assert not disk.file.exists()
    disk.free_bytes = 9 * _MIB
    assert disk.reserve.look() is None
    assert disk.file.exists()


def test_a_stack_that_was_stopped_holds_no_room(disk: Disk) -> None:
    disk.reserve.look()
    assert disk.file.exists()
    disk.reserve.give_back()
    assert not disk.file.exists()
    disk.reserve.give_back()  # it is full, or was started again meanwhile


def test_a_disk_that_cannot_be_asked_ends_nothing(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", fails)
    said = disk.reserve.look()
    assert said is not None
    assert "Input/output error" in said

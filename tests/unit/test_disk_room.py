"""Work is refused before the disk is full, and taken again when there is room for more than the next moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ingress import limits
from ingress.commands.admission import Admission, Admissions
from ingress.commands.disk_room import DiskRoom
from schemas import errors

MIB = 2**20


class Disk:
    """So much is free; ``None`` is a disk that cannot be asked."""

    def __init__(self) -> None:
        self.free_mib: int | None = 10_000
        self.looked = 0
        self.now = 0.0

    def __call__(self, _: Path) -> int:
        self.looked += 1
        if self.free_mib is None:
            raise OSError
        return self.free_mib * MIB

    def room(self, folder: Path | None = Path("/")) -> DiskRoom:
        return DiskRoom(folder, self, lambda: self.now)

    def later(self, free_mib: int | None) -> None:
        self.now, self.free_mib = self.now + limits.DISK_LOOK_INTERVAL_S, free_mib


def test_closed_before_it_is_full_and_open_when_the_reserve_fits_again() -> None:
    disk = Disk()
    room = disk.room()
    said = []
    for free in (10_000, 129, 127, 320, None, 511, 513, 129):
        disk.later(free)
        said.append(room.why_not() is not None)
    assert said == [False, False, True, True, True, True, False, False]
    for _ in range(10):
        room.why_not()
    assert disk.looked == len(said)


def test_servers_elsewhere_have_disks_of_their_own() -> None:
    disk = Disk()
    disk.free_mib = 0
    assert (disk.room(None).why_not(), disk.looked) == (None, 0)


def test_every_request_of_every_service_is_refused() -> None:
    disk = Disk()
    disk.free_mib = 0
    admissions = Admissions({"payments": Admission()}, disk.room())
    requests: Any = [object(), object()]
    caller: Any = None
    first, second = asyncio.run(admissions.refusals(caller, requests))
    assert isinstance(first, errors.Unavailable)
    assert second is first

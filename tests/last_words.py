"""What a worker wrote before it crashed. A library of C says why it aborts a process there, and nowhere else.

pytest keeps what is written during a test in a file without a name, which is gone with its process: the process in charge
holds it open, too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pytest

from tests import run_folder

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

_STDERR: Final = 2


def _captured() -> int | None:
    """Another descriptor of the file that pytest keeps; it writes there while it reads its first ``conftest``."""
    if not stat.S_ISREG(os.fstat(_STDERR).st_mode):
        return None  # nothing is captured
    return os.open(f"/proc/self/fd/{_STDERR}", os.O_RDONLY)


_CAPTURED: Final = _captured()
_held: Final[dict[str, BinaryIO]] = {}


def pytest_configure(config: pytest.Config) -> None:
    """In a worker: says where the file is."""
    if hasattr(config, "workerinput") and _CAPTURED is not None:
        _place(config.workerinput["workerid"]).symlink_to(f"/proc/{os.getpid()}/fd/{_CAPTURED}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: WorkerController) -> None:
    """A worker begins."""
    place = _place(node.gateway.id)
    if place.exists():
        _held[node.gateway.id] = place.open("rb")


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """A worker is gone in the middle of a test."""
    held = _held.get(report.node.gateway.id)  # type: ignore[attr-defined]  # xdist puts it there
    if held is not None:
        report.sections.append(("what the worker wrote last", held.read().decode(errors="replace")))


def _place(worker: str) -> Path:
    return run_folder.FOLDER / f"said-{worker}"

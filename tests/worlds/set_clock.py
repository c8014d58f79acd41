"""A clock of its own for one process of a test, which it sets while it runs; the machine's stays as it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("set_clock.c")
needs_set_clock = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


class SetClock:
    """Right at first. Who starts with ``environment`` has it, and sets it by the seconds (int64) in ``file``."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock_off"
        self.file.write_bytes(bytes(8))
        library = folder / "set_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFF": str(self.file)}

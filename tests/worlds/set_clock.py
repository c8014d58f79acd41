"""A clock of its own for one process of a test, which is set while it runs; the machine's stays as it is."""

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
    """Right at first. Who starts with ``environment`` has it, and so have its children."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "clock_off"
        self.file.write_bytes(bytes(8))
        library = folder / "set_clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl", "-lpthread"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFF": str(self.file)}

    def set(self, off_s: int) -> None:
        """Sets it so many seconds ahead of the machine's, or behind it."""
        with self.file.open("r+b") as file:
            file.write(off_s.to_bytes(8, sys.byteorder, signed=True))

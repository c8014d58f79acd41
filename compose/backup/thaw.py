"""Lets stopped processes go on, whatever becomes of the one that stopped them: ``python -m compose.backup.thaw``.

It reads lines ``pid:started`` until the end of its input, which comes with the end of who started it, however that
ends, or until the bound.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Final

from compose import limits
from compose.stack import processes

_BYTES: Final = 65_536


def main() -> int:
    """1 when the bound was reached."""
    print("ready", flush=True)
    text, deadline = b"", time.monotonic() + limits.BACKUP_FREEZE_MAX_S
    is_done = False
    while not is_done and (left_s := deadline - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left_s)[0]:
            read = os.read(sys.stdin.fileno(), _BYTES)
            text, is_done = text + read, not read
    for line in text.decode().split("\n")[:-1]:  # behind the last line's end is what was not written whole
        processes.send(processes.ProcessId(*map(int, line.split(":"))), signal.SIGCONT)
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())

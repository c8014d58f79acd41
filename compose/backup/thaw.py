"""Lets stopped processes go on, whatever becomes of the one that stopped them: ``python -m compose.backup.thaw``.

It waits for the end of its input, which comes with the end of who started it, however that ends, or for the bound.
"""

from __future__ import annotations

import select
import signal
import sys

from compose import limits
from compose.stack import processes


def main() -> int:
    """Arguments are ``pid:started``; 1 when the bound was reached."""
    frozen = [processes.ProcessId(*map(int, text.split(":"))) for text in sys.argv[1:]]
    print("ready", flush=True)
    is_done, _, _ = select.select([sys.stdin], [], [], limits.BACKUP_FREEZE_MAX_S)
    for process in frozen:
        processes.send(process, signal.SIGCONT)
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())

"""A few lines as a process, which is forked as services are: ``python -m tests.worlds.program LINES [ARGUMENT ...]``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    exec(compile(sys.argv.pop(1), "program", "exec"), {"__name__": "__main__"})

"""What a benchmark says that a group of processes cost has in it whatever worked for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compose.proof.bench.cpu import cpu_seconds

SPENDS_S = 0.2
#: the kernel counts user and system time in whole ticks of 10 ms: so much may be missing of what was spent
UNCOUNTED_S = 0.02
#: has a process of its own do the work, waits for its end, says so, and stays
KEPT = f"""
import os, sys, time
if not (child := os.fork()):
    while time.process_time() < {SPENDS_S + UNCOUNTED_S}: pass
    os._exit(0)
os.waitpid(child, 0)
print("done", flush=True)
sys.stdin.read()
"""


ABOVE = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"


@pytest.mark.parametrize("program", [(KEPT,), (ABOVE, KEPT)], ids=["itself", "its child"])
def test_the_time_of_processes_that_were_waited_for_counts(program: tuple[str, ...]) -> None:
    """A warm sandbox stays, and so does what its forks cost: nothing of it is in the time of its parent's dead."""
    command = [sys.executable, "-c", *program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kept:
        assert kept.stdin is not None
        assert kept.stdout is not None
        assert kept.stdout.readline() == "done\n"
        assert cpu_seconds({"kept": [kept.pid]})["kept"] >= SPENDS_S
        kept.stdin.close()

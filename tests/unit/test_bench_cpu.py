"""What a benchmark says that a group of processes cost has in it whatever worked for them."""

from __future__ import annotations

import subprocess
import sys

from compose.proof.bench.cpu import cpu_seconds

SPENDS_S = 0.2
#: has a process of its own do the work, waits for its end, says so, and stays
KEPT = f"""
import os, sys, time
if not (child := os.fork()):
    while time.process_time() < {SPENDS_S}: pass
    os._exit(0)
os.waitpid(child, 0)
print("done", flush=True)
sys.stdin.read()
"""


def test_the_time_of_processes_that_a_child_has_waited_for_counts() -> None:
    """A warm sandbox stays, and so does what its forks cost: nothing of it is in the time of its parent's dead."""
    middle = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    with subprocess.Popen(
        [sys.executable, "-c", KEPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as kept:
        assert kept.stdin is not None
        assert kept.stdout is not None
        assert kept.stdout.readline() == "done\n"
        assert cpu_seconds({"kept": [kept.pid]})["kept"] >= SPENDS_S
        kept.stdin.close()
    with subprocess.Popen(
        [sys.executable, "-c", middle, KEPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as above:
        assert above.stdin is not None
        assert above.stdout is not None
        assert above.stdout.readline() == "done\n"
        assert cpu_seconds({"above": [above.pid]})["above"] >= SPENDS_S
        above.stdin.close()

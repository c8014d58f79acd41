"""TERM, HUP and INT end a long command with everything cleaned up, also where a shell started it with INT ignored."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.eventually import patient

_LONG = """
import asyncio, os, signal, sys
from compose.proof.kit.interruption import end_as_interrupted

async def work():
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), int(sys.argv[1]))
    await asyncio.sleep(30)

signal.signal(signal.SIGINT, signal.SIG_IGN)
end_as_interrupted()
try:
    asyncio.run(work())
except KeyboardInterrupt:
    print("cleaned up")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_polite_end_is_an_interruption(number: signal.Signals) -> None:
    child = [sys.executable, "-c", _LONG, str(int(number))]
    done = subprocess.run(child, capture_output=True, text=True, timeout=patient(60), check=False)
    assert (done.returncode, done.stdout) == (0, "cleaned up\n"), done.stderr

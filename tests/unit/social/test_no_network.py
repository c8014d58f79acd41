"""Decoders of media have no network: what a medium talks them into reaches nobody."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

_TRIES: Final = """
import os, socket, subprocess, sys
from pathlib import Path
from dataflows.social.media import sandbox
sandbox.bound()
for kind in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    try:
        socket.socket(kind)
        print("opened", kind)
    except PermissionError:
        print("refused")
try:
    socket.socketpair()
    print("opened a pair")
except PermissionError:
    print("refused")
child = os.fork()
if not child:
    try:
        socket.socket()
        os._exit(1)
    except PermissionError:
        os._exit(0)
print(os.waitpid(child, 0)[1])
print(len(Path("/proc/self/maps").read_bytes()) > 0, os.pipe() != None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="filters of system calls are Linux's")
def test_a_process_within_bounds_opens_no_socket_and_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", _TRIES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 4 + ["0", "True", "True"]

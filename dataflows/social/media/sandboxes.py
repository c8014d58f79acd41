"""Sandboxes that are warm: each is asked for one medium at a time, and is kept for the next one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, Self

import msgspec

from dataflows.social.media.sandbox import Answer, Order
from schemas.social import limits

_COMMAND: Final = (sys.executable, "-m", "dataflows.social.media.sandbox")
_answer: Final = msgspec.json.Decoder(Answer)


class Undecided(OSError):
    """Hostile bytes may be the reason, or the machine: memory that ran out, a crash, no end in time."""


class Killed(OSError):
    """Somebody killed it: the kernel, where a machine has no memory left. Seldom the medium is the reason."""


class Unwanted(OSError):
    """The medium has ended meanwhile: nobody needs to know any more."""


class Sandboxes:
    """Those of one process; as many as there are media at once. Threads may share it."""

    def __init__(self) -> None:
        self._idle: list[_Sandbox] = []

    def run(self, order: Order, wait_s: float, is_wanted: Callable[[], bool]) -> Answer:
        """How the process of this medium ended; it does not outlive this. Raises Unwanted, OSError as ``render``."""
        sandbox = self._ready()
        try:
            sandbox.ask(order)
            answer = _answered(sandbox, time.monotonic() + wait_s, is_wanted)
        except BaseException:
            sandbox.end()
            raise
        if sandbox.asked < limits.MEDIA_SANDBOX_MEDIA_MAX:
            self._idle.append(sandbox)
        else:
            sandbox.end()
        return answer

    def _ready(self) -> _Sandbox:
        while self._idle:
            if (sandbox := self._idle.pop()).is_there:
                return sandbox
            sandbox.end()
        return _Sandbox()

    def close(self) -> None:
        """Ends those that nobody asks now."""
        while self._idle:
            self._idle.pop().end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Sandbox:
    """One of them; what it says on its error line is FFmpeg's and of no use."""

    def __init__(self) -> None:
        environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            _COMMAND,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("no pipes")
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._heard = b""
        self.asked = 0

    @property
    def is_there(self) -> bool:
        """Somebody may have ended it while nothing was asked of it."""
        return self._process.poll() is None

    def ask(self, order: Order) -> None:
        self.asked += 1
        self._orders.write(msgspec.json.encode(order) + b"\n")

    def answer(self, wait_s: float) -> Answer | None:
        """None where there is none yet. Raises Killed or Undecided where a signal ended it, OSError where it failed."""
        until = time.monotonic() + wait_s
        while not self._heard.endswith(b"\n"):
            if not select.select([self._answers], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            if not (piece := self._answers.read(limits.MEDIA_CHUNK_BYTES)):
                status = self._process.wait()
                raise ended_by(status) if status < 0 else OSError(f"the sandbox itself ended with {status}")
            self._heard += piece
        heard, self._heard = self._heard, b""
        return _answer.decode(heard)

    def end(self) -> None:
        """It kills the process of its medium, and ends."""
        self._orders.close()
        try:
            self._process.wait(limits.MEDIA_SANDBOX_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()


def ended_by(status: int) -> OSError:
    """What is known of a process that a signal ended: Killed or Undecided."""
    kind = Killed if status == -signal.SIGKILL else Undecided
    return kind(f"the sandbox ended with {status}")


def _answered(sandbox: _Sandbox, until: float, is_wanted: Callable[[], bool]) -> Answer:
    while is_wanted():
        left_s = max(0.0, until - time.monotonic())
        if (answer := sandbox.answer(min(left_s, limits.MEDIA_WANTED_LOOK_S))) is not None:
            return answer
        if not left_s:
            raise Undecided("no end in time")
    raise Unwanted("the medium has ended")

"""What Bytewax turns goes on when the clock is set back: it would wait until the clock shows the old time again."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.eventually import patient
from tests.worlds.set_clock import SetClock, needs_set_clock

if TYPE_CHECKING:
    from pathlib import Path

_BACK_S = 3_600
_TURN = f"""
import os, sys, threading, time
from pathlib import Path
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from dataflows.owner.drivers import owner_flow, run_flow
from dataflows.streams.positioned_stream import _Count, _Source

class Turned:
    turns, stop = 0, threading.Event()

    def finished(self):
        return self.stop.is_set()

    def next_round(self):
        self.turns += 1
        if self.turns == 10:
            before = time.time()
            with Path(os.environ["CLOCK_OFF"]).open("r+b") as file:
                file.write((-{_BACK_S}).to_bytes(8, sys.byteorder, signed=True))
            assert time.time() < before - {_BACK_S} / 2
        if self.turns == 20:
            self.stop.set()
        return []

def stream(turned):
    flow = Dataflow("stream")
    read = op.input("read", flow, _Source("read", turned.next_round, turned.stop))
    op.output("count", op.key_rm("done", read), _Count(lambda done: None))
    return flow

turned = Turned()
run_flow((owner_flow if sys.argv[1] == "owner" else stream)(turned))
print(turned.turns)
"""


@needs_set_clock
@pytest.mark.parametrize("flow", ["owner", "stream"])
def test_a_flow_turns_on_when_the_clock_is_set_back(tmp_path: Path, flow: str) -> None:
    turned = subprocess.run(
        [sys.executable, "-c", _TURN, flow],
        env=os.environ | SetClock(tmp_path).environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(30),
    )
    assert turned.stdout == "20\n", turned.stderr

"""Runs the simulator alone: ``python -m compose.simulator --folder FOLDER --port PORT``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compose.simulator.app import SimulatorConfig
from compose.simulator.errors import SimulatorError
from compose.simulator.server import serve_forever
from schemas import limits


def main() -> int:
    """Exit status 0 after a drain, 1 with a line of advice when the simulator cannot start."""
    parser = argparse.ArgumentParser(prog="python -m compose.simulator", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the book lies")
    parser.add_argument("--port", type=int, required=True, help="loopback port to listen on")
    parser.add_argument("--hold-ms", type=int, default=limits.SIMULATOR_HOLD_MS, help="how long a lost answer hangs")
    options = parser.parse_args()
    try:
        serve_forever(SimulatorConfig(folder=options.folder, hold_ms=options.hold_ms), options.port)
    except SimulatorError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

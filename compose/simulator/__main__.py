"""Runs the simulator alone: ``python -m compose.simulator --folder FOLDER --port PORT``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from compose.simulator import limits
from compose.simulator.errors import SimulatorError
from compose.simulator.http.app import SimulatorConfig
from compose.simulator.http.server import serve_forever
from compose.simulator.webhooks import Receiver

#: the webhooks' secret comes this way and not as an argument, which every user of the machine may read
SECRET_VARIABLE = "SIMULATOR_WEBHOOK_SECRET"  # noqa: S105 - the name of it


def main() -> int:
    """Exit status 0 after a drain, 1 with a line of advice when the simulator cannot start."""
    parser = argparse.ArgumentParser(prog="python -m compose.simulator", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the book lies")
    parser.add_argument("--port", type=int, required=True, help="loopback port to listen on")
    parser.add_argument("--hold-ms", type=int, default=limits.SIMULATOR_HOLD_MS, help="how long a lost answer hangs")
    parser.add_argument("--webhook-url", help=f"who is told of what happens; the secret comes in {SECRET_VARIABLE}")
    options = parser.parse_args()
    url, secret = options.webhook_url, os.environ.get(SECRET_VARIABLE, "")
    try:
        receiver = Receiver(url, secret) if url else None
        config = SimulatorConfig(folder=options.folder, hold_ms=options.hold_ms, receiver=receiver)
        serve_forever(config, options.port)
    except SimulatorError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The supervisor's process: ``python -m compose.supervise``. Started by ``compose.supervise.launch``, not by hand."""

from __future__ import annotations

import argparse
import sys

from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from compose.supervise.supervisor import Supervisor


def main() -> int:
    """Runs one stack until it is stopped."""
    parser = argparse.ArgumentParser(prog="supervise")
    parser.add_argument("--servers-only", action="store_true")
    parser.add_argument("--lifeline", type=int)
    arguments = parser.parse_args()
    try:
        supervisor = Supervisor(load_settings(), servers_only=arguments.servers_only, lifeline=arguments.lifeline)
        return supervisor.run()
    except StackError as error:
        print(error, file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())

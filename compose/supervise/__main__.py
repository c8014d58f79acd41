"""The supervisor's process: ``python -m compose.supervise``. Started by ``compose.supervise.launch``, not by hand."""

from __future__ import annotations

import argparse
import sys
import uuid

from compose.settings.settings import load_settings
from compose.stack.errors import AnotherSupervisorError, StackError
from compose.supervise import forking
from compose.supervise.plan import forked_modules
from compose.supervise.state import ANOTHER_RUNS, STACK_ID_VARIABLE
from compose.supervise.supervisor import Supervisor


def main() -> int:
    """Runs one stack until it is stopped."""
    parser = argparse.ArgumentParser(prog="supervise")
    parser.add_argument("--servers-only", action="store_true")
    parser.add_argument("--lifeline", type=int)
    arguments = parser.parse_args()
    try:
        settings = load_settings()
        stack_id = uuid.uuid4().hex
        fork_server = None  # before anything else is opened or started
        if not arguments.servers_only:
            fork_server = forking.start(forked_modules(settings), {STACK_ID_VARIABLE: stack_id})
        return Supervisor(settings, stack_id, fork_server, lifeline=arguments.lifeline).run()
    except StackError as error:
        print(error, file=sys.stderr, flush=True)
        return ANOTHER_RUNS if isinstance(error, AnotherSupervisorError) else 1


if __name__ == "__main__":
    sys.exit(main())

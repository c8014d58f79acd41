"""Runs one service of ours: ``python -m compose.services owner --instance 1``, with the home in the environment.

A service is a module of this package with ``run(settings, instance)``, which serves until SIGTERM and then drains.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys

from compose.services.background import BACKGROUND
from compose.services.logs import configure_logs
from compose.settings.service_processes import PROCESSES
from compose.settings.settings import SERVICES, load_settings
from compose.stack.errors import StackError
from compose.stack.niceness import give_way


def main() -> None:
    """Imports only the service that is asked for, and runs it."""
    gc.disable()  # while modules are imported, nothing goes that was made
    parser = argparse.ArgumentParser(prog="services")
    parser.add_argument("service", choices=(*SERVICES, *PROCESSES))
    parser.add_argument("--instance", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.service in BACKGROUND:
        give_way()
    try:
        settings = load_settings(opens_files=False)
        configure_logs(settings.log_level)
        is_declared = arguments.service in PROCESSES
        module = importlib.import_module(f"compose.services.{'of_service' if is_declared else arguments.service}")
        gc.freeze()  # what is imported stays: a collection looks at what the service makes
        gc.enable()
        module.run(settings, arguments.instance, *((arguments.service,) if is_declared else ()))
    except StackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

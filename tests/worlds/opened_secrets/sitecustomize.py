"""Where this folder is on PYTHONPATH, each process of Python says which secrets it opens: see ``test_stack_services``."""

import os
import sys
from pathlib import Path

_FOLDER = os.environ.get("MILLRACE_TEST_OPENED_SECRETS")


def _told(event, arguments):
    if event != "open" or not isinstance(arguments[0], str) or "/secrets/" not in arguments[0]:
        return
    with Path(_FOLDER, str(os.getpid())).open("a") as file:
        file.write(arguments[0].rpartition("/")[2] + "\n")


if _FOLDER:
    sys.addaudithook(_told)

"""How many processes of a kind share the work when nobody says so."""

from __future__ import annotations

import os
import sys
from typing import Final

#: on so many cores servers and services take turns as it is (``millrace bench http``)
_CPUS_OF_ONE_EACH: Final = 2


def processes_default() -> int:
    """Two where each has a core, else one, whose batches are larger."""
    return 2 if cpus() > _CPUS_OF_ONE_EACH else 1


def cpus() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

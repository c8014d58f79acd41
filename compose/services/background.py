"""Who gives way: processes whose answer nobody waits for take what others leave, and catch up when there is time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from compose import limits
from compose.settings.service_processes import WORKERS

BACKGROUND: Final = frozenset(
    {"clickhouse_sink", "processor_worker", "webhook_worker", "merchant_webhooks", "simulator"}
    | {"limiter_usage", "limiter_leases", *WORKERS}
)


def give_way() -> None:
    """Lowers this process for good. It costs nothing where there is a core for each that has something to do.

    Linux may weigh sessions instead of processes (sched(7), autogroup): then that of a session's leader is lowered too.
    """
    os.nice(limits.BACKGROUND_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # there is none in a control group, or on another system
            Path("/proc/self/autogroup").write_text(str(limits.BACKGROUND_NICENESS))

"""How processes of ours write their logs: a line for each event, nothing below the level that is set, no values.

structlog by itself shows the local variables of every frame of a traceback wherever rich is installed, as it is here:
a secret that a crashed call held would stand in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from typing import TextIO


def configure_logs(level: str, to: TextIO | None = None) -> None:
    """Of this process from now on, to stdout or ``to``; ``level`` as MILLRACE_LOG_LEVEL. Tracebacks name no values."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.set_exc_info,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(to),
    )

"""A service built from settings, to be run by whoever wants it: in a process of its own or in a thread.

``build(settings, instance)`` of a service's module gives one. A process runs one with ``serve``. A test runs one
in a thread where no process has to die.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compose.services.ops import serve_ops

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableService:
    """One service; it serves nobody before ``run``."""

    #: serves until ``stop``, then drains. Raises ``StackError`` when an operator is needed
    run: Callable[[], None]
    #: ends ``run`` soon; any thread or signal handler may call it, and again
    stop: Callable[[], None]
    #: True when it may serve, or why not; any thread may ask
    ready: Callable[[], bool | str]


def serve(service: RunnableService) -> None:
    """Runs the service in this process until SIGTERM or SIGINT; its health and metrics are at the ops port."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    serve_ops(None, service.ready)
    service.run()

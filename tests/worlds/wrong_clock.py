"""A service of ours whose clock is wrong: ``python -m tests.worlds.wrong_clock SERVICE --instance 0``.

``WRONG_BY_S`` says by how many seconds it is ahead. Its monotonic clock, and everybody else's clocks, are right.
"""

from __future__ import annotations

import os
import runpy
import time
from typing import Any

import confluent_kafka


class _Producer(confluent_kafka.Producer):
    """Says when a record was made by this process's clock, as the library does by the system's."""

    def produce(self, *args: Any, **options: Any) -> None:
        super().produce(*args, **({"timestamp": time.time_ns() // 1_000_000} | options))


def set_wrong(by_s: int) -> None:
    """This process's wall clock is ahead by so many seconds from now on."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + by_s
    time.time_ns = lambda: right_ns() + by_s * 1_000_000_000
    confluent_kafka.Producer = _Producer  # type: ignore[misc]


if __name__ == "__main__":
    set_wrong(int(os.environ.pop("WRONG_BY_S")))
    runpy.run_module("compose.services", run_name="__main__")

"""The owner service with a sampler beside it: ``python -m compose.proof.bench.owner.measured_owner --instance 1``.

Ten times a second the sampler notes in which part of the owner each thread is. It answers "where did the time go"
without a line of measuring code in the owner; its own cost is one or two percent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from compose.proof.bench.new_database import compare_nothing
from compose.services import owner
from compose.settings.settings import load_settings

_INTERVAL_S: Final = 0.1
PROFILE_VARIABLE: Final = "MILLRACE_BENCH_PROFILE"
MEASURE_VARIABLE: Final = "MILLRACE_BENCH_MEASURE"  # while this file exists, samples count

# The innermost frame that stands in this table names the part: end of file name, function, part.
_PARTS: Final = {
    ("decoding.py", "record_of"): "decode commands",
    ("reader.py", "_read"): "read from Kafka",
    ("rounds.py", "put"): "reader waits for room",
    ("rounds.py", "next"): "wait for commands",
    ("round_trip.py", "_bound"): "build SQL",
    ("copied.py", "copy_of"): "build SQL",
    ("round_trip.py", "run"): "wait for Postgres",
    ("round_trip.py", "write"): "wait for Postgres",
    ("commit.py", "_transaction"): "wait for another lane",
    ("commit.py", "_decided"): "fold",
    ("stored_event.py", "kept"): "compress events",
    ("commit.py", "_known_reads"): "build SQL",
    ("commit.py", "_results"): "build SQL",
    ("workspace.py", "writes"): "build SQL",
    ("partition.py", "reads"): "build SQL",
    ("partition.py", "begin"): "build aggregates",
    ("workspace.py", "decide"): "decide",
    ("fold.py", "_validate"): "validate",
    ("fold.py", "_commit"): "encode results and events",
    ("fold.py", "run"): "fold",
    ("publisher.py", "publish"): "publish",
    ("publisher.py", "serve"): "publish",
}


class Sampler(threading.Thread):
    """Counts in which part every thread of the owner is."""

    def __init__(self) -> None:
        super().__init__(name="bench-sampler", daemon=True)
        self.parts: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        """Samples until ``over`` is set, while the measuring file exists."""
        switch = Path(os.environ[MEASURE_VARIABLE])
        while not self.over.wait(_INTERVAL_S):
            if not switch.exists():
                continue
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see other threads
                part = _part(frame)
                if part is not None and names.get(ident) != self.name:
                    self.parts[part] += 1


def _part(frame: FrameType | None) -> str | None:
    while frame is not None:
        part = _part_of(frame.f_code)
        if part is not None:
            return part
        frame = frame.f_back
    return None


@cache
def _part_of(code: CodeType) -> str | None:
    return _PARTS.get((code.co_filename.rpartition("/")[2], code.co_name))


def main() -> None:
    """Serves as the owner service does; writes the samples when it has drained."""
    parser = argparse.ArgumentParser(prog="measured_owner")
    parser.add_argument("--instance", type=int, default=0)
    arguments = parser.parse_args()
    compare_nothing()
    sampler = Sampler()
    sampler.start()
    started = time.monotonic()
    owner.run(load_settings(), arguments.instance)
    sampler.over.set()
    sampler.join()
    profile = {"seconds": time.monotonic() - started, "parts": dict(sampler.parts)}
    Path(os.environ[PROFILE_VARIABLE]).write_text(json.dumps(profile))


if __name__ == "__main__":
    main()

"""An owner of the limiter's commands over a test's own database, in its own process: ``python -m tests.worlds.limiter.quota_owner JSON``.

Killed at will, or by itself at the fail point that the environment names.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from dataflows.limiter.service import limiter_service
from dataflows.owner.supervise import supervise
from sinks.kafka.connection import KafkaConnection
from tests.eventually import patient
from tests.worlds.senders import KnownKeys

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def owner_process(kafka: KafkaConnection, dsn: str, fail_point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is gone at the end, however the test ends."""
    environment = {**os.environ, "MILLRACE_FAIL_POINT": fail_point}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.worlds.limiter.quota_owner",
            json.dumps([asdict(replace(kafka, senders=())), dsn]),
        ],
        env=environment,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=patient(30))


def main() -> None:
    kafka, dsn = json.loads(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    supervise(KafkaConnection(**kafka), dsn, limiter_service(), f"owner-{os.getpid()}", stop, KnownKeys())


if __name__ == "__main__":
    main()

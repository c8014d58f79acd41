"""A ClickHouse sink of a test's own stage in its own process: ``python -m tests.worlds.sink_process JSON``. Killed at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from dataflows.owner import fail_points
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.services import SINKS
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.kafka.connection import KafkaConnection
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def sink_process(settings: SinkSettings, fail_point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is gone at the end, however the test ends."""
    plain = {
        name: asdict(value) if is_dataclass(value) else value for name, value in _fields(settings) if name != "sink"
    }
    text = json.dumps(plain | {"sink": settings.sink.name})
    environment = {**os.environ, "MILLRACE_FAIL_POINT": fail_point}
    process = subprocess.Popen([sys.executable, "-m", "tests.worlds.sink_process", text], env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(timeout=patient(30))


def _fields(settings: SinkSettings) -> list[tuple[str, Any]]:
    return [(field.name, getattr(settings, field.name)) for field in fields(settings)]


def main() -> None:
    given = json.loads(sys.argv[1])
    given["sink"] = SINKS[given["sink"]]
    given["kafka"] = KafkaConnection(**given["kafka"])
    given["clickhouse"] = ClickHouseConnection(**given["clickhouse"])
    sink = Sink(SinkSettings(**given), SinkMetrics("test", CollectorRegistry()), fail_points.reach)
    signal.signal(signal.SIGTERM, lambda *_: sink.stop())
    sink.run()


if __name__ == "__main__":
    main()

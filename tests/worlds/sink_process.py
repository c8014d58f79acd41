"""A ClickHouse sink of a test's own stage in its own process: ``python -m tests.worlds.sink_process JSON``. Killed at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from dataflows.owner import fail_points
from limiter.analytics.decision_sink import DecisionSink
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.kafka.connection import KafkaConnection
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def sink_process(
    settings: SinkSettings, fail_point: str = "", kind: type[Sink] = Sink
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is gone at the end, however the test ends."""
    text = json.dumps(asdict(settings) | {"kind": kind.__name__})
    environment = {**os.environ, "MILLRACE_FAIL_POINT": fail_point}
    process = subprocess.Popen([sys.executable, "-m", "tests.worlds.sink_process", text], env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(timeout=patient(30))


def main() -> None:
    given = json.loads(sys.argv[1])
    kind = {made.__name__: made for made in (Sink, DecisionSink)}[given.pop("kind")]
    given["kafka"] = KafkaConnection(**given["kafka"])
    given["clickhouse"] = ClickHouseConnection(**given["clickhouse"])
    sink = kind(SinkSettings(**given), SinkMetrics("test", CollectorRegistry()), fail_points.reach)
    signal.signal(signal.SIGTERM, lambda *_: sink.stop())
    sink.run()


if __name__ == "__main__":
    main()

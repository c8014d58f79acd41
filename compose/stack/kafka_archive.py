"""An ahead-of-time archive of Kafka: the broker starts with half the processor time, and is soon as fast as it gets.

Java writes it at the end of a broker that was kept busy: its classes, and which of its code is called how often. It is
made once for each Java and Kafka by ``python -m compose.stack.kafka_archive`` (``make setup`` does), kept in
the user's cache beside the list of jars, and optional: without it, or with a damaged one, Kafka only is slower.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaException

from compose import limits
from compose.stack.errors import StackError
from compose.stack.kafka import Kafka
from compose.stack.kafka_exercise import USER, exercise
from compose.stack.kafka_jars import archive_path, class_path, java
from compose.stack.ports import PortLeases
from schemas import errors
from sinks import limits as sinks_limits


def make_archive() -> Path | None:
    """The archive for this Java and these jars; None where Java cannot make one (before version 25).

    Raises StackError when the broker cannot be kept busy.
    """
    wanted = archive_path()
    if wanted.exists():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with closing(PortLeases()) as leases, tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
        ports, password = (leases.take_any(), leases.take_any()), "while it is recorded"
        broker = Kafka(Path(folder) / "kafka", *ports, password, users=lambda: [USER])
        broker.prepare()
        draft = Path(folder) / "archive"
        _record(broker, draft, Path(folder) / "log")
        if not draft.exists():
            return None
        draft.replace(wanted)
    return wanted


def _record(broker: Kafka, draft: Path, log: Path) -> None:
    """Keeps the broker busy and ends it; a Java before version 25 does not know the option, and ends by itself."""
    with log.open("wb") as output, subprocess.Popen(broker.recorded(draft), stdout=output, stderr=output) as handle:
        try:
            if _serves(broker, handle):
                broker.initialize()
                exercise(broker)
                handle.terminate()
                handle.wait(limits.KAFKA_ARCHIVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            draft.unlink(missing_ok=True)
        except (KafkaException, errors.PlatformError) as error:
            raise StackError(f"its archive was not made, and a later 'make setup' tries again: {error}") from error
        finally:
            handle.kill()


def _serves(broker: Kafka, handle: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + limits.SERVER_START_TIMEOUT_S
    while handle.poll() is None and time.monotonic() < deadline:
        if broker.unhealthy() is None:
            return True
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)
    return False


def main() -> None:
    """Fetches the jars and makes the archive; says what is missing and succeeds: neither is needed to go on."""
    try:
        class_path()
        if not archive_path().exists():
            print("Kafka is prepared, once for this user: half a minute", file=sys.stderr)
        archive = make_archive()
    except StackError as error:
        print(f"Kafka is not prepared: {error}", file=sys.stderr)
        return
    if archive is None:
        print(f"Kafka starts without an archive: {java()} makes none", file=sys.stderr)


if __name__ == "__main__":
    main()

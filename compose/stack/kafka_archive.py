"""An ahead-of-time archive of Kafka's classes: the broker then starts with half the processor time.

It is made once for each Java and Kafka by ``python -m compose.stack.kafka_archive`` (``make setup`` does), kept in
the user's cache beside the list of jars, and optional: without it, or with a damaged one, Kafka only starts slower.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose import limits as compose_limits
from compose.stack.errors import StackError
from compose.stack.kafka import Kafka
from compose.stack.kafka_jars import archive_path, class_path, java
from compose.stack.ports import PortLeases
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

#: adapters in the archive of JDK 25 do not link again, and every start would warn about it
_MAKE: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTAdapterCaching", "-XX:-AOTStubCaching")


def make_archive() -> Path | None:
    """The archive for this Java and these jars; None where Java cannot make one (before version 25)."""
    wanted = archive_path()
    if wanted.exists():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    leases = PortLeases()
    with tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
        broker = Kafka(Path(folder) / "kafka", leases.take_any(), leases.take_any(), "while it is recorded")
        broker.prepare()
        draft = Path(folder) / "archive"
        made = _record(broker, [*_MAKE, f"-XX:AOTCacheOutput={draft}"], Path(folder) / "log")
        leases.close()
        if not made or not draft.exists():
            return None
        draft.replace(wanted)
    return wanted


def _record(broker: Kafka, options: Sequence[str], log: Path) -> bool:
    """Runs the broker until it serves and ends it; at its end Java writes what it loaded."""
    program, *rest = broker.command()
    with log.open("wb") as output, subprocess.Popen([program, *options, *rest], stdout=output, stderr=output) as handle:
        deadline = time.monotonic() + compose_limits.SERVER_START_TIMEOUT_S
        while handle.poll() is None and broker.unhealthy() is not None and time.monotonic() < deadline:
            time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)
        handle.terminate()
        try:
            handle.wait(compose_limits.KAFKA_ARCHIVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            handle.kill()
            return False
    return True


def main() -> None:
    """Fetches the jars and makes the archive; says what is missing and succeeds: neither is needed to go on."""
    try:
        class_path()
        archive = make_archive()
    except StackError as error:
        print(f"Kafka is not prepared: {error}", file=sys.stderr)
        return
    if archive is None:
        print(f"Kafka starts without an archive of its classes: {java()} makes none", file=sys.stderr)


if __name__ == "__main__":
    main()

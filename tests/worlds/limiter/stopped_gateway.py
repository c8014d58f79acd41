"""A process of its own that stops itself while it holds a lease: what could it spend before, and when it went on?

``python -m tests.worlds.limiter.stopped_gateway URL FOLDER`` writes two lines of JSON: before the stop, and after it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

from schemas.limiter import limits
from tests.worlds.limiter.counter_server import limiter, policy

LEASE_MS: Final = 300  # the store charges it whole after eleven times as long
CAPACITY: Final = 2_000
BURST: Final = 300
LEFT_MIN: Final = 5
PATIENT_S: Final = 60
YEAR_MS: Final = 365 * 24 * 3_600_000
LEASED: Final = policy(capacity=CAPACITY, window_ms=YEAR_MS)


def say(**found: int) -> None:
    """One line."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


async def main(url: str, folder: Path) -> None:
    """Nothing here settles leases in the background: only the clock of a decision can end one."""
    async with limiter(url, folder, LEASED, name="stopped", timeout_s=PATIENT_S) as gateway:
        allowed = 0
        while not any(bucket.left >= LEFT_MIN for bucket in gateway._buckets.values()):
            allowed += (await gateway.check("t", "u", "/r")).allowed
        (bucket,) = gateway._buckets.values()
        say(allowed=allowed, left=bucket.left, granted=bucket.granted)
        os.kill(os.getpid(), signal.SIGSTOP)
        decided = [await gateway.check("t", "u", "/r") for _ in range(BURST)]
        say(allowed=sum(d.allowed for d in decided), degraded=gateway.degraded)


if __name__ == "__main__":
    limits.LIMIT_LEASE_MS = LEASE_MS  # type: ignore[misc]  # of this process
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

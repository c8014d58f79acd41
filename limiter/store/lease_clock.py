"""The clock by which leases end, and all that is told of them: as the store's, it goes on while the machine sleeps.

CLOCK_MONOTONIC of Linux stands still in suspend: whoever woke up spent leases that the store had charged whole.
``limiter/spending/_spending.c`` reads the same clock.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: where Linux is not, the monotonic clock goes on in sleep
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: nanoseconds; it never goes back
lease_clock_ns: Final[Callable[[], int]] = partial(time.clock_gettime_ns, _CLOCK)

"""An owner whose bounds are a fraction of the real ones: ``python -m tests.faults.scaled_owner 10 owner --instance 0``.

What holds at a bound is proved in a tenth of the time at a tenth of the bound; the proof keeps the real one.
"""

from __future__ import annotations

import sys

from compose.services.__main__ import main
from dataflows import limits

#: how much may be in the hand of an owner that stops reading, and how long it takes leave
BOUNDS = ("PUBLISH_BACKLOG_MAX", "BATCH_MESSAGES_MAX", "OWNER_LEAVE_TIMEOUT_S")


if __name__ == "__main__":
    scale = int(sys.argv.pop(1))
    for name in BOUNDS:
        bound = getattr(limits, name)
        setattr(limits, name, type(bound)(bound / scale))
    main()

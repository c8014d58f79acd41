"""When Bytewax asks a source of ours again: at once, whatever the clock says. The sources themselves wait for work.

Left to itself it asks at a moment shortly after now, by the clock of this machine. Set back meanwhile by an hour, it
would ask in an hour.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

AT_ONCE: Final = datetime.fromtimestamp(0, UTC)

"""The gateway's metrics by name; each comment says what a high value means."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

# Many `repeated`: a processor does not hear our answers. Any `forged`: somebody tries, or a secret was not rotated
# here. `malformed`: signed, but no event: the processor has changed its format. Any `untimed`: our clock is wrong, and
# they were told to come again.
EVENTS: Final = Counter(
    "millrace_webhook_events", "Events that came in, by what became of them", ["processor", "outcome"]
)

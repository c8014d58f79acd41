"""The topics of payments."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = "commands.payments.v1"
EVENTS: Final = "events.payments.v1"
DEAD_LETTERS: Final = "dead_letters.payments.v1"
PARTITIONS: Final = 8

"""The topics of payments."""

from __future__ import annotations

from typing import Final

from schemas.topics import commands_topic, dead_letters_topic, events_topic

COMMANDS: Final = commands_topic("payments")
EVENTS: Final = events_topic("payments")
DEAD_LETTERS: Final = dead_letters_topic("payments")
PARTITIONS: Final = 8

"""The two users of the embedded ClickHouse; what each may do stands in ``users.xml``."""

from __future__ import annotations

from typing import Final

USER: Final = "default"
READER: Final = "reader"  # analysts: they read, and change nothing

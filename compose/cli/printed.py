"""What commands print for programs: JSON whose times are those of the API (RFC 3339, UTC, microseconds)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any


def json_text(found: Any, indent: int | None = None) -> str:
    """One document. What JSON has no type for (an amount, a UUID, a day) is its text."""
    return json.dumps(found, default=_told, indent=indent)


def _told(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value)

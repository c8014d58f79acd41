"""What the service declares, as the clients take it: what it does not know is refused before anything is sent."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from schemas import services
from schemas.fields.column import declared


def fields(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """These fields of an operation's payload. Raises TypeError for one that it does not declare."""
    _require_known(operation, given, set(services.OPERATIONS[operation].payload))
    return given


def filters(record: type[Struct], given: dict[str, str]) -> dict[str, str]:
    """These filters of a record's list. Raises TypeError for one that it does not have."""
    _require_known(record.__name__, given, {field.name for field in declared(record) if field.column.listed})
    return given


def _require_known(what: str, given: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(given.keys() - known):
        raise TypeError(f"{what} has no {', '.join(unknown)}")

"""Refusals that every service decides alike, in the words that an ingress uses for the same (``schemas.errors``)."""

from __future__ import annotations

from typing import Final

from schemas.records import Rejection

#: of ``invalid_command``, whoever finds it
WRONG_VALUES: Final = "The command has wrong values; see errors."


def wrong_values(errors: list[dict[str, str]]) -> Rejection:
    """What was sent cannot be; each error has its ``field`` and a ``reason``."""
    return Rejection("invalid_command", WRONG_VALUES, {"errors": errors})


def wrong_value(field: str, reason: str) -> Rejection:
    """The same of one field."""
    return wrong_values([{"field": field, "reason": reason}])


def version_conflict(expected: int | None, current: int) -> Rejection:
    """Another version is current."""
    detail = f"Version {expected} was expected; the current one is {current}."
    return Rejection("version_conflict", detail, {"current_version": current})


def state_conflict(state: str, detail: str) -> Rejection:
    """What is in this state does not allow it."""
    return Rejection("state_conflict", detail, {"current_state": state})


def stale(expected: int | None, current: int) -> Rejection | None:
    """Why a call that names a version is refused: another one is current. What is not there yet has version 0."""
    return None if expected in (None, current) else version_conflict(expected, current)

"""One after the other, each for itself: what fails of one tenant is told and tried again, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import psycopg
import structlog

from schemas import errors, limits

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places

Item = TypeVar("Item")
_log = structlog.get_logger(__name__)


def each(places: Places, what: str, items: Iterable[Item], do: Callable[[Item], bool]) -> bool:
    """Whether anything was done. Raises only what says that the control database is away."""
    done = False
    for item in items:
        try:
            done = do(item) or done
        except (psycopg.Error, errors.PlatformError, LookupError, ValueError) as error:
            if places.control.closed or places.control.broken:
                raise
            cause = str(error)[: limits.AUDIT_TEXT_LENGTH_MAX]
            _log.error("mover_step_failed", step=what, reason=type(error).__name__, cause=cause)
    return done

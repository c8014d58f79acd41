"""How long a caller waits: ``Prefer`` (RFC 7240, a hint) and ``X-Deadline-Ms`` (a rule)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers


class Preferences(Struct, frozen=True):
    """What ``Prefer`` asked for, within our bounds; None = nothing asked."""

    wait_s: int | None = None
    respond_async: bool = False

    def applied(self) -> str | None:
        """The value of Preference-Applied, or None when nothing was asked for."""
        if self.respond_async:
            return "respond-async"
        return None if self.wait_s is None else f"wait={self.wait_s}"


def parse(values: Iterable[str]) -> Preferences:
    """The preferences of all ``Prefer`` fields; what cannot be read is ignored, the first of a name counts."""
    found: dict[str, str] = {}
    for value in values:
        for part in value[: limits.PREFER_LENGTH_MAX].split(","):
            name, _, rest = part.partition(";")[0].partition("=")
            found.setdefault(name.strip().lower(), rest.strip().strip('"'))
    wait = found.get("wait", "")
    seconds = min(int(wait), limits.RESULT_WAIT_MAX_S) if wait.isascii() and wait.isdigit() else None
    return Preferences(wait_s=seconds, respond_async="respond-async" in found)


def deadline_ms(headers: Headers) -> int | None:
    """Milliseconds that the caller gives the command from now on. Raises MalformedRequest when it is not a number."""
    text = headers.get("x-deadline-ms")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(limits.DEADLINE_MS_MAX))):
        raise errors.MalformedRequest("X-Deadline-Ms must be a number of milliseconds.")
    value = int(text)
    if not 1 <= value <= limits.DEADLINE_MS_MAX:
        raise errors.MalformedRequest(f"X-Deadline-Ms must be from 1 to {limits.DEADLINE_MS_MAX}.")
    return value


def wait_s(preferences: Preferences, deadline: int | None) -> float:
    """How long a result is waited for: as asked, within our bound, and not past the deadline."""
    wait: float = limits.RESULT_WAIT_DEFAULT_S if preferences.wait_s is None else preferences.wait_s
    if deadline is not None:
        wait = min(wait, (deadline + limits.DEADLINE_GRACE_MS) / 1_000)
    return wait

"""What goes over the wire and what comes back, without any wire: both clients drive the same protocols with these."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request and give back its Reply, or Lost when none came."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None
    params: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0  # how long the service itself may take before it answers


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]  # names in lower case
    content: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object; an unreadable body is a problem without a code."""
        try:
            value = json.loads(self.content)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"detail": self.content[:200].decode(errors="replace")}


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer: the request may or may not have arrived."""

    cause: str


Step = Send | Pause
Heard = Reply | Lost | None  # None after a pause


@dataclass(frozen=True, slots=True)
class Committed:
    """A command that was decided and done. ``replayed``: it had been done before this call."""

    result: dict[str, Any]
    event: dict[str, Any]
    replayed: bool


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command of ``commands``: ``operation`` as "POST /v1/payment_intents"; a missing key is made up."""

    operation: str
    payload: dict[str, Any]
    idempotency_key: str | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """The answer to one command line: ``result`` and ``event``, or ``problem``."""

    status: int
    result: dict[str, Any] | None
    event: dict[str, Any] | None
    problem: dict[str, Any] | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """One event of the stream and the cursor that resumes after it."""

    cursor: str
    event: dict[str, Any]

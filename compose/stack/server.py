"""What an embedded server is to the supervisor: five methods, and no other knowledge of Kafka or Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence


class EmbeddedServer(Protocol):
    """A server that runs from a home folder on loopback.

    ``prepare`` may take seconds and is called from a thread beside the other servers' ones; everything it does
    is safe to repeat. ``unhealthy`` never blocks longer than ``limits.HEALTH_CHECK_TIMEOUT_S``.
    """

    name: str
    stop_signal: signal.Signals

    @property
    def address(self) -> str:
        """Where clients reach it, without a password."""
        ...

    def prepare(self) -> None:
        """Data folder and configuration exist; raises ``StackError`` when they cannot."""
        ...

    def command(self) -> Sequence[str]:
        """The foreground command that serves until ``stop_signal``."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables added to the supervisor's own."""
        ...

    def unhealthy(self) -> str | None:
        """None once it answers; otherwise why it does not yet."""
        ...

    def initialize(self) -> None:
        """Called once it answers: whatever clients need to find (a database); safe to repeat."""
        ...

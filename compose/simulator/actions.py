"""What a payer does, and what time does: operations that wait for somebody, and holds that end by themselves.

Levers of tests and the book's clock, as deeds upon the book: durable, once, and told by webhook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from compose.simulator import errors, limits, webhooks
from compose.simulator.executor import Executor
from compose.simulator.statements import QUERIES

if TYPE_CHECKING:
    import sqlite3


class ActionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /actions/{operation_id}."""

    outcome: Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class EndAction:
    """A deed: the payer has done what was asked, or could not. Once: what the operation became stays."""

    operation_id: str
    outcome: Literal["done", "failed"]
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """The operation as it is now. Raises NotFound when nothing waits under this identity."""
        code = None if self.outcome == "done" else "authentication_failed"
        outcome = Executor(connection, tells=self.tells).conclude(self.operation_id, code)
        if outcome is None:
            raise errors.NotFound("No operation waits for a payer under this identity.")
        return {"operation_id": outcome.operation_id, "status": outcome.status}


@dataclass(frozen=True, slots=True)
class EndHold:
    """A deed: the time of a hold is over, now."""

    operation_id: str
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """What was left of it. Raises NotFound when nothing is held under this identity."""
        released = Executor(connection, tells=self.tells).let_hold_end(self.operation_id)
        if not released:
            raise errors.NotFound("Nothing is held under this identity.")
        return {"operation_id": self.operation_id, "released": released}


@dataclass(frozen=True, slots=True)
class EndDue:
    """A deed: payers that never came back, and holds whose time is over; a bounded number of each."""

    now_ms: int
    tells: bool

    def apply(self, connection: sqlite3.Connection) -> int:
        """How many ended."""
        executor = Executor(connection, tells=self.tells)
        due = (self.now_ms, limits.SIMULATOR_DUE_MAX)
        actions = connection.execute(QUERIES["actions_due"], due).fetchall()
        for (operation_id,) in actions:
            executor.conclude(operation_id, "action_expired")
        holds = connection.execute(QUERIES["holds_due"], due).fetchall()
        for (operation_id,) in holds:
            connection.execute(QUERIES["hold_to_end_delete"], (operation_id,))
            executor.let_hold_end(operation_id)
        return len(actions) + len(holds)


def due_now(*, tells: bool) -> EndDue:
    """The deed of this moment."""
    return EndDue(webhooks.now_ms(), tells)

"""Social posts as the owner runtime sees them: what a batch concerns is read in one round trip and written in one.

Each command is of one user, whose partition it is in. What two users touch (edges, counts of followers) is read under
locks of both, which every command that touches them takes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed
from dataflows.social import graph_commands, own_data_commands, post_commands, profile_commands, sealed
from dataflows.social.asking import Asking
from dataflows.social.batch import SocialBatch
from dataflows.social.domain import refusals
from dataflows.social.handler import Handler, WorkerHandler, user_of
from dataflows.social.media import commands as media_commands
from dataflows.social.moderation import commands as moderation_commands
from schemas.operation import Named
from schemas.records import Command, Rejection
from schemas.social.service import SERVICE
from schemas.topics import partition_for

HANDLERS: Final[dict[str, Handler]] = (
    post_commands.HANDLERS
    | graph_commands.HANDLERS
    | profile_commands.HANDLERS
    | media_commands.HANDLERS
    | own_data_commands.HANDLERS
)
#: of moderation: their aggregate is the case of an object, not their caller
CASE_HANDLERS: Final[dict[str, Handler]] = moderation_commands.HANDLERS
WORKER_HANDLERS: Final[dict[str, WorkerHandler]] = (
    media_commands.WORKER_HANDLERS | moderation_commands.WORKER_HANDLERS | own_data_commands.WORKER_HANDLERS
)


def _handler(command: Command) -> Handler | None:
    return CASE_HANDLERS.get(command.operation) or HANDLERS.get(command.operation)


def _is_of_its_aggregate(command: Command) -> bool:
    """Whether it lies where the one owner of what it changes decides."""
    if command.operation not in CASE_HANDLERS:
        return command.aggregate_key == command.scope
    named = Named(None, command.payload, command.scope, command.idempotency_key)
    return command.aggregate_key == SERVICE.operation_by_name[command.operation].aggregate_key(named)


class SocialPartition:
    """One owned partition; nothing is remembered between batches."""

    def __init__(self, connection: object, partition: int) -> None:
        del connection
        self._partition = partition
        self._asked: list[str] = []

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """What the commands concern."""
        del keys
        asking = Asking()
        for command in commands:
            if by_worker := WORKER_HANDLERS.get(command.operation):
                by_worker.asks(asking, command.payload)
                continue
            user = user_of(command)
            handler = _handler(command)
            if user is not None and handler is not None:
                handler.asks(asking, user, command.payload)
                if sealed.needs_key(command):
                    asking.keys.add(user)
        found = asking.statements()
        self._asked = [name for name, _ in found]
        return [statement for _, statement in found]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> SocialWorkspace:
        """A workspace over what they gave; over nothing where a batch has nothing but what is refused."""
        asked = self._asked if rows else ()
        return SocialWorkspace(self._partition, SocialBatch(dict(zip(asked, rows, strict=True))))


class SocialWorkspace:
    """The rows of one batch in memory."""

    def __init__(self, partition: int, batch: SocialBatch) -> None:
        self._partition = partition
        self._batch = batch

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Who may write at all is decided here, the rest by the command's handler."""
        del offset
        if partition_for(command.aggregate_key, SERVICE.partitions) != self._partition:
            return MISROUTED
        if by_worker := WORKER_HANDLERS.get(command.operation):
            return by_worker.decide(self._batch, command, now)
        user = user_of(command)
        if user is None or not _is_of_its_aggregate(command):
            return refusals.NO_CALLER
        caller = self._batch.authors.get(user)
        if caller is None:
            return refusals.NO_USER
        if caller.state in ("deleting", "deleted"):
            return refusals.ERASED
        handler = _handler(command)
        assert handler is not None  # noqa: S101 - the fold knows the operations of the service
        return sealed.decided(self._batch, command, user, lambda clear: handler.decide(self._batch, caller, clear, now))

    def writes(self) -> list[Statement]:
        """All that the batch changed."""
        return self._batch.writes()

    def committed(self) -> None:
        """Nothing is remembered."""

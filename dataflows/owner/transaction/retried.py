"""Parked commands that come again. They are believed only if the database has an operator's retry of that command.

Their sender may speak in any name (``schemas.senders.PARKED``), so a record that differs from what was parked has no
effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dataflows.owner.batch import Record, Statement
from dataflows.owner.partition.leases import SQL
from schemas.avro import codec
from schemas.errors import Corrupt
from schemas.records import Command
from schemas.senders import PARKED
from sinks.postgres.arrays import Texts

#: the reason for refusing a record that only claims to have been parked
NOT_RETRIED: Final = "not_retried"


def asked_for(records: Iterable[Record], topic: str) -> list[Statement]:
    """The query for commands that operators retried; none if the batch has no such commands, as nearly all."""
    ids = [r.command.request_id for r in records if r.command is not None and r.sender == PARKED]
    return [(SQL["retried_read"], (topic, Texts(sorted(set(ids)))))] if ids else []


class Retried:
    """The commands of one round that operators retried."""

    def __init__(self, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        self._commands = [command for row in rows if (command := _command_of(bytes(row[0]))) is not None]

    def allows(self, record: Record, command: Command) -> bool:
        """Whether this record may be decided: it was not parked, or an operator retried it."""
        return record.sender != PARKED or command.tried_again() in self._commands


def _command_of(record: bytes) -> Command | None:
    try:
        return codec.decode_command(record).tried_again()
    except Corrupt:
        return None

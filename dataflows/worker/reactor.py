"""Sends the commands that are made of events: every one has its effect once.

Killed before Kafka has them on all replicas, or before the position is stored, the same commands are sent again under
the same identities, and the owner drops them. If identities were drawn anew, a restart would do things twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflows.worker.commands import CommandSender
from dataflows.worker.contract import WorkerPlace
from dataflows.worker.event_worker import EventWorker
from schemas.errors import Unavailable
from schemas.records import Command, Event
from schemas.service import Service
from sinks.streams.positions import Taken

React = Callable[[Event], Sequence[Command]]  # pure: the same event makes the same commands for ever


def reactor(place: WorkerPlace, service: Service, react: React) -> EventWorker:
    """A worker that only makes commands of events."""
    return EventWorker(place, service, _Reactions(CommandSender(place), react))


class _Reactions:
    def __init__(self, sender: CommandSender, react: React) -> None:
        self._sender = sender
        self._react = react

    def take(self, taken: Sequence[Taken]) -> None:
        commands = [one for t in taken for accepted in t.events for one in self._react(accepted.event)]
        if reason := self._sender.why_not_sent(commands):
            raise Unavailable(f"Kafka does not take commands: {reason}")

    def rest(self) -> bool:
        """Nothing is put off."""
        return False

    def close(self) -> None:
        """Nothing is held."""

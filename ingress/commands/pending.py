"""The state of commands on their way, for the calls that wait. Used only by the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ingress import limits

if TYPE_CHECKING:
    import asyncio

    from ingress.commands.stored import Stored
    from schemas import errors, records

_KEY_REUSED: Final = msgspec.json.encode(
    {"code": "key_reused", "detail": "This idempotency key was used with another request; use a new key."}
)
_PARKED: Final = msgspec.json.encode(
    {"code": "parked", "detail": "The command could not be carried out; an operator decides."}
)


class Pending:
    """One command in flight. Ends with an outcome, with an error, or undecided when its call stops waiting."""

    __slots__ = ("body", "call", "command", "error", "outcome", "place", "replayed")

    def __init__(self, command: records.Command, call: Call) -> None:
        self.command = command
        self.call = call
        self.place: tuple[int, int] | None = None  # partition and offset, once Kafka has acknowledged it
        self.outcome: records.Outcome | None = None
        self.body = b""
        self.replayed = False
        self.error: errors.PlatformError | None = None

    @property
    def open(self) -> bool:
        """True while neither an outcome nor an error is known."""
        return self.outcome is None and self.error is None

    def acknowledged(self, partition: int, offset: int) -> None:
        """Notes that Kafka holds the command on all in-sync replicas."""
        if self.place is None:
            self.place = (partition, offset)
            self.call.one_acknowledged()

    def failed(self, error: errors.PlatformError) -> None:
        """Notes that the command was not acknowledged. Whether Kafka has it, the same identity finds out."""
        if self.open:
            self.error = error
            self.call.one_closed()
        self.call.one_acknowledged()  # no other acknowledgement will come

    def decided(self, outcome: records.Outcome, body: bytes, *, replayed: bool) -> None:
        """Takes the owner's result."""
        if self.open:
            self.outcome, self.body, self.replayed = outcome, body, replayed
            self.call.one_closed()

    def decided_by_store(self, stored: Stored) -> None:
        """Takes the stored result: ours if it was decided at our place in the topic, otherwise a replay."""
        if stored.request_hash != self.command.request_hash:
            self.decided("refused", _KEY_REUSED, replayed=False)
            return
        if self.place is None:
            return  # only our place in Kafka shows whose decision it is; two answers must not both be the first
        replayed = self.place != (stored.partition, stored.offset)
        outcome: records.Outcome = "committed" if stored.status == "committed" else "refused"
        self.decided(outcome, stored.response, replayed=replayed)

    def decided_parked(self) -> None:
        """Notes that the command is among the dead letters."""
        self.decided("parked", _PARKED, replayed=False)


class Call:
    """The commands of one HTTP request, and the future that ends its wait."""

    __slots__ = ("_acknowledgements_left", "_only_acknowledged", "_open", "done", "pendings")

    def __init__(self, commands: list[records.Command], done: asyncio.Future[None], *, only_acknowledged: bool) -> None:
        self.done = done
        self.pendings = [Pending(command, self) for command in commands]
        self._only_acknowledged = only_acknowledged
        self._open = self._acknowledgements_left = len(commands)

    def one_acknowledged(self) -> None:
        """Ends the wait of a call that asked only for Kafka's acknowledgement."""
        self._acknowledgements_left -= 1
        if self._only_acknowledged and self._acknowledgements_left <= 0:
            self.stop_waiting()

    def drain(self) -> None:
        """Ends the wait for a decision; waits a bounded time for Kafka's acknowledgement, to be able to tell it."""
        self._only_acknowledged = True
        if self._acknowledgements_left <= 0:
            self.stop_waiting()
        else:
            self.done.get_loop().call_later(limits.INGRESS_DRAIN_ACKNOWLEDGED_S, self.stop_waiting)

    def one_closed(self) -> None:
        """Ends the wait when no command is open, but not of a call that waits for acknowledgements.

        On a busy machine the owner decides before Kafka has told that and where it holds the command. Of one that its
        owner stores nothing of, such as one on a parked object, that place alone shows that it is over.
        """
        self._open -= 1
        if self._open <= 0 and not self._only_acknowledged:
            self.stop_waiting()

    def stop_waiting(self) -> None:
        """Ends the wait as things stand."""
        if not self.done.done():
            self.done.set_result(None)

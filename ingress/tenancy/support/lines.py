"""The lines of one list of commands under a support grant: as many rows of the audit log as there are lines.

A line is a call of its own. Its row is written before the application has the whole list, so that none is carried out
without; and what was answered to it stands there before the answer to the list is given.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from ingress import limits
from ingress.commands.envelope import lines_of
from ingress.http.requests import strict_json
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Message, Receive, Scope

    from ingress.identity.caller import Caller
    from ingress.tenancy.support.calls import SupportCalls

LIST: Final = "POST /v1/commands"
_UNNAMED: Final = (LIST, "-")
_REFUSED: Final = 400


class _Answered(msgspec.Struct):
    status: int


_answered: Final = msgspec.json.Decoder(_Answered).decode


def action_of(scope: Scope) -> str:
    """What a call asks for, as its row says it."""
    return f"{scope['method']} {scope['path']}"


class SupportLines:
    """Those of one call: none if it is no list. ``receive`` stands in for that of the application."""

    def __init__(self, calls: SupportCalls, caller: Caller, scope: Scope, receive: Receive) -> None:
        self._calls = calls
        self._caller = caller
        self._receive = receive
        self._is_read = action_of(scope) != LIST
        self._raw = bytearray()
        self._numbers: list[int] = []

    async def receive(self) -> Message:
        """The next part; the last one of a list once its lines have their rows. Raises GrantInactive, Unavailable."""
        message = await self._receive()
        if self._is_read or message["type"] != "http.request":
            return message
        self._raw += message.get("body", b"")
        if len(self._raw) > limits.COMMANDS_BODY_BYTES_MAX:  # the route refuses it
            self._is_read, self._raw = True, bytearray()
        elif not message.get("more_body", False):
            self._is_read = True
            await self._begin(lines_of(bytes(self._raw)))
            self._raw = bytearray()
        return message

    async def _begin(self, lines: Sequence[bytes]) -> None:
        if len(lines) > limits.COMMANDS_LINES_MAX:  # as above
            return
        named = []
        for n, line in enumerate(lines):
            named.append(_named(line))
            if n % limits.COMMANDS_PER_TURN == limits.COMMANDS_PER_TURN - 1:
                await asyncio.sleep(0)  # as the route does
        self._numbers = await self._calls.begin_lines(self._caller, named) if named else []

    def results(self, answer: Sequence[Message]) -> dict[int, str]:
        """What became of each, by the number of its row: done or refused, as its own answer says.

        ``answer``: to the whole list; where it is no list of as many answers, nothing of it was done.
        """
        told: list[int] = []
        if self._numbers and answer and answer[0]["status"] < _REFUSED:
            body = b"".join(message.get("body", b"") for message in answer[1:])
            told = [_answered(line).status for line in lines_of(body)]
        if len(told) != len(self._numbers):
            told = [_REFUSED] * len(self._numbers)
        return {n: word(status) for n, status in zip(self._numbers, told, strict=True)}


def word(status: int) -> str:
    """Done or refused, by the status of an answer."""
    return "refused" if status >= _REFUSED else "done"


def _named(line: bytes) -> tuple[str, str]:
    """Its operation, and what that is about: the last part of its path, as of any call."""
    try:
        body = strict_json.parse(line)
    except errors.MalformedRequest:
        return _UNNAMED
    operation = body.get("operation") if isinstance(body, dict) else None
    if not isinstance(operation, str) or not operation.strip():
        return _UNNAMED
    return operation, operation.rstrip("/").rpartition("/")[2]

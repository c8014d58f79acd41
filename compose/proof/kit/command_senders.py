"""The two ways in which the demo sends commands: single HTTP calls, and many in one ``POST /v1/commands``.

Both offer the same calls, so a story does not know which one it takes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from compose.proof import limits
from ingress.client import CommandLine, Committed
from ingress.client.errors import refusal

if TYPE_CHECKING:
    from ingress.client import AsyncMillraceClient, LineAnswer

INTENTS = "/v1/payment_intents"
_ERRORS_FROM = 400


class CommandSender(Protocol):
    """Carries out one command. Raises the client's errors."""

    async def command(
        self, path: str, payload: dict[str, Any], key: str, expected_version: int | None = None
    ) -> Committed:
        """The answer to ``POST path`` with this identity."""
        ...


class SingleSender:
    """One HTTP call for one command."""

    def __init__(self, client: AsyncMillraceClient) -> None:
        self._client = client

    async def command(
        self, path: str, payload: dict[str, Any], key: str, expected_version: int | None = None
    ) -> Committed:
        """As ``CommandSender.command``."""
        intent_id, _, verb = path.removeprefix(INTENTS).strip("/").partition("/")
        identity: dict[str, Any] = {"idempotency_key": key}
        if not intent_id:
            return await self._client.create(**payload, **identity)
        identity["expected_version"] = expected_version
        match verb:
            case "confirm":
                return await self._client.confirm(intent_id, **payload, **identity)
            case "capture":
                return await self._client.capture(intent_id, **payload, **identity)
            case "cancel":
                return await self._client.cancel(intent_id, **payload, **identity)
        raise ValueError(path)


class BulkSender:
    """Commands that come within a moment travel together as NDJSON, and each gets its own line of the answer."""

    def __init__(self, client: AsyncMillraceClient) -> None:
        self._client = client
        self._waiting: list[tuple[CommandLine, asyncio.Future[LineAnswer]]] = []
        self._sender: asyncio.Task[None] | None = None
        self.lists = 0

    async def command(
        self, path: str, payload: dict[str, Any], key: str, expected_version: int | None = None
    ) -> Committed:
        """As ``CommandSender.command``."""
        line = CommandLine(f"POST {path}", payload, key, expected_version)
        answered: asyncio.Future[LineAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((line, answered))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        answer = await answered
        if answer.status >= _ERRORS_FROM or answer.result is None or answer.event is None:
            raise refusal(answer.status, answer.problem or {})
        return Committed(answer.result, answer.event, answer.replayed)

    async def _send(self) -> None:
        while self._waiting:
            await asyncio.sleep(limits.DEMO_BULK_WINDOW_MS / 1_000)
            batch, self._waiting = self._waiting, []
            self.lists += 1
            try:
                answers = [answer async for answer in self._client.commands(line for line, _ in batch)]
            except Exception as error:  # noqa: BLE001 - whoever waits for a line gets it, whatever it is
                for _, answered in batch:
                    answered.set_exception(error)
                continue
            for (_, answered), answer in zip(batch, answers, strict=True):
                answered.set_result(answer)

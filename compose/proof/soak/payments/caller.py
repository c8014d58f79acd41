"""One merchant's calls: the same identity until there is an answer, and a journal of everything that was acknowledged.

A command that was answered twice must have had the same answer twice; what differs is an ``Unexpected``.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from compose.proof import limits
from compose.proof.kit.journal import CURRENT
from compose.proof.kit.persistence import persistently
from compose.proof.soak.outages import Answers
from compose.proof.soak.payments.plans import Care
from compose.proof.soak.waiting import Unexpected, answered
from ingress.client import CallRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from compose.proof.kit.acknowledged import Acknowledgements
    from ingress.client import AsyncMillraceClient, Committed

Found = TypeVar("Found")
_AT_ONCE: Final = 3


@dataclass(slots=True)
class Counts:
    """What callers did and heard, over all merchants."""

    commands: int = 0
    refused: int = 0
    answers_lost: int = 0
    duplicates: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)


class Caller:
    """The calls of one merchant."""

    def __init__(
        self, merchant: str, token: str, client: AsyncMillraceClient, acknowledged: Acknowledgements, counts: Counts
    ) -> None:
        self.merchant = merchant
        self.token = token
        self.client = client
        self._acknowledged = acknowledged
        self._counts = counts

    async def do(self, key: str, call: Callable[[], Awaitable[Committed]], care: Care = Care.PLAIN) -> Committed:
        """The one answer to a command. ``call`` has its key in it. Raises CallRefused, or Unexpected."""
        self._counts.commands += 1
        if care is Care.LOST:
            CURRENT.get().answers_to_lose = 1
            self._counts.answers_lost += 1
        at_once, sent_at = _AT_ONCE if care is Care.AT_ONCE else 1, time.monotonic()
        try:
            answers = list(await asyncio.gather(*(self._persistently(call) for _ in range(at_once))))
        except CallRefused:
            self._counts.answers.note(sent_at)
            self._counts.refused += 1
            raise
        self._counts.answers.note(sent_at)
        if care is Care.TWICE:
            answers.append(await self._persistently(call))
        self._counts.duplicates += len(answers) - 1
        for answer in answers:
            self._acknowledged.note(self.merchant, key, answer)
            if (answer.result, answer.event) != (answers[0].result, answers[0].event):
                raise Unexpected(f"{key}: a duplicate had another answer")
        return answers[0]

    async def read(self, call: Callable[[], Awaitable[Found]]) -> Found:
        """A read that outlives whatever is killed meanwhile."""
        return await self._persistently(call)

    async def _persistently(self, call: Callable[[], Awaitable[Found]]) -> Found:
        return await persistently(call, limits.SOAK_PERSISTENCE_S)

    async def intent(self, intent_id: str, *states: str) -> dict[str, Any]:
        """The intent once it is in one of these states; without any, once it is not processing."""
        return await self.read(lambda: self.client.wait(intent_id, *states, within_s=limits.SOAK_FINAL_WAIT_S))

    async def vault_token(self, vault_url: str, key: str, number: str) -> str:
        """The token of a card; the same key gets the same token, however often the vault is killed."""
        card = {"number": number, "exp_month": 12, "exp_year": 2035, "cvc": "123"}
        body = {"idempotency_key": key, "payload": card}
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(base_url=vault_url, headers=headers, timeout=limits.SOAK_CALL_WAIT_S) as vault:
            answer = await answered(lambda: vault.post("/v1/tokens", json=body))
        if answer.is_error:
            raise Unexpected(f"the vault answered {answer.status_code}: {answer.text[:200]}")
        return str(answer.json()["result"]["id"])

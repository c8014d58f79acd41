"""Tells one story: its commands in order, each disturbed as the story says, and the look at the end.

A disturbed command must have the effect of an undisturbed one. Whatever differs is a problem in the tally, never an
exception: one payment that goes wrong does not stop the others.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits
from compose.proof.demo.stories import Disturbance
from compose.proof.demo.tally import StoryOutcome
from compose.proof.kit.command_senders import INTENTS
from compose.proof.kit.journal import CURRENT, Journal
from compose.proof.kit.persistence import persistently
from ingress.client import CallRefused, Committed, MillraceClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from compose.proof.demo.stories import Story
    from compose.proof.demo.tally import Tally
    from compose.proof.kit.acknowledged import Acknowledgements
    from compose.proof.kit.command_senders import CommandSender
    from ingress.client import AsyncMillraceClient

#: no payment of the demo gets that far
_STALE_VERSION: Final = 99
_CONCURRENT: Final = 3
_US: Final = 1_000


class StoryRunner:
    """Tells the stories of one merchant. ``hurried`` is a client that waits for no result and asks for it later."""

    def __init__(
        self,
        client: AsyncMillraceClient,
        *,
        single: CommandSender,
        bulk: CommandSender,
        hurried: CommandSender,
        tally: Tally,
        acknowledged: Acknowledgements,
    ) -> None:
        self._client = client
        self._single = single
        self._bulk = bulk
        self._hurried = hurried
        self._tally = tally
        self._acknowledged = acknowledged

    async def run(self, story: Story) -> StoryOutcome:
        """The payment from its creation to its end; what went wrong stands in the tally."""
        told = StoryOutcome(story, Journal(), time.time_ns() // _US)
        CURRENT.set(told.journal)
        self._tally.told.append(told)
        try:
            await self._run(told)
        except MillraceClientError as error:
            self._tally.problem(f"invoice {story.invoice.number} ({told.intent_id}): {error}")
        told.ended_at = time.time_ns() // _US
        return told

    async def _run(self, told: StoryOutcome) -> None:
        story = told.story
        intent_id = await self._create(told)
        if story.kind.cancel != "before_confirm":
            await self._pay(told, intent_id)
        if story.kind.cancel:
            await self._do(told, f"{INTENTS}/{intent_id}/cancel", {}, "cancel")
        told.intent = await self._wait(intent_id)
        found = (told.intent["state"], told.intent["amount_received"], told.intent["amount_capturable"])
        wanted = (story.ending, story.received, 0)
        if found != wanted:
            self._tally.problem(f"invoice {story.invoice.number} ({intent_id}): ended {found}, must be {wanted}")

    async def _create(self, told: StoryOutcome) -> str:
        story = told.story
        payload = {
            "amount": story.amount,
            "currency": story.currency,
            "payment_method": story.kind.card,
            "capture_method": "manual" if story.kind.is_manual else "automatic",
            "metadata": {
                "invoice": story.invoice.number,
                "date": story.invoice.date,
                "country": story.invoice.country,
            },
        }
        created = await self._do(told, INTENTS, payload, "create", other=payload | {"amount": story.amount + 1})
        return str(created.result["id"])

    async def _pay(self, told: StoryOutcome, intent_id: str) -> None:
        story = told.story
        await self._do(told, f"{INTENTS}/{intent_id}/confirm", {}, "confirm")
        intent = await self._wait(intent_id)
        if story.kind.second_card and intent["state"] == "requires_payment_method":
            card = {"payment_method": story.kind.second_card}
            await self._do(told, f"{INTENTS}/{intent_id}/confirm", card, "confirm-again")
        for number, amount in enumerate(story.captures, 1):
            capture = {"amount": amount, "final": number == len(story.captures)}
            await self._do(told, f"{INTENTS}/{intent_id}/capture", capture, f"capture-{number}")
            await self._wait(intent_id)

    async def _wait(self, intent_id: str) -> dict[str, Any]:
        """The intent once it is not processing. Raises StillProcessing or ServiceUnavailable past the bound."""
        return await persistently(
            lambda: self._client.wait(intent_id, within_s=limits.DEMO_FINAL_WAIT_S), limits.DEMO_PERSISTENCE_S
        )

    async def _do(
        self, told: StoryOutcome, path: str, payload: dict[str, Any], name: str, other: dict[str, Any] | None = None
    ) -> Committed:
        """One command of the story with its disturbance; ``other`` is a request that differs, for key reuse."""
        story, key = told.story, f"{told.story.invoice.number}-{name}"
        how = story.disturbance
        if how is Disturbance.STALE and path != INTENTS:
            await self._stale(told, path, payload, f"{key}-stale")
        if how is Disturbance.RETRIED:
            told.journal.answers_to_lose = 1
        first, *again = await self._send(self._sender(story), path, payload, key, how)
        told.commands[key] = first
        for answer in (first, *again):
            self._acknowledged.note(story.merchant, key, answer)
        for answer in again:
            self._compare(told, name, first, answer)
        if how is Disturbance.CONCURRENT:
            self._one_is_first(told, name, [first, *again])
        if how is Disturbance.RESUMED and not story.is_bulk:
            self._tally.resumed += 1
        if how is Disturbance.REUSED and other is not None:
            await self._reuse(told, path, other, key)
        return first

    async def _send(
        self, sender: CommandSender, path: str, payload: dict[str, Any], key: str, how: Disturbance
    ) -> list[Committed]:
        def once() -> Coroutine[Any, Any, Committed]:
            return persistently(lambda: sender.command(path, payload, key), limits.DEMO_PERSISTENCE_S)

        if how is Disturbance.CONCURRENT:
            return list(await asyncio.gather(*(once() for _ in range(_CONCURRENT))))
        if how is Disturbance.DUPLICATED:
            return [await once(), await once()]
        return [await once()]

    def _sender(self, story: Story) -> CommandSender:
        if story.is_bulk:
            return self._bulk
        return self._hurried if story.disturbance is Disturbance.RESUMED else self._single

    def _compare(self, told: StoryOutcome, name: str, first: Committed, again: Committed) -> None:
        self._tally.duplicates_sent += 1
        if (again.event, again.result) == (first.event, first.result):
            self._tally.duplicates_replayed += 1
        else:
            self._tally.problem(f"invoice {told.story.invoice.number}, {name}: a duplicate had another answer")

    def _one_is_first(self, told: StoryOutcome, name: str, answers: list[Committed]) -> None:
        """Of answers to one command at most one is not flagged as replayed; one that was resumed cannot tell."""
        was_resumed = any(exchange.status == httpx.codes.ACCEPTED for exchange in told.journal.exchanges)
        if not was_resumed and sum(not answer.replayed for answer in answers) > 1:
            self._tally.problem(f"invoice {told.story.invoice.number}, {name}: more than one first answer")

    async def _stale(self, told: StoryOutcome, path: str, payload: dict[str, Any], key: str) -> None:
        sender = self._sender(told.story)
        if await self._is_refused(
            told, "version_conflict", lambda: sender.command(path, payload, key, expected_version=_STALE_VERSION)
        ):
            self._tally.stale_refused += 1

    async def _reuse(self, told: StoryOutcome, path: str, other: dict[str, Any], key: str) -> None:
        sender = self._sender(told.story)
        if await self._is_refused(told, "key_reused", lambda: sender.command(path, other, key)):
            self._tally.reused_refused += 1

    async def _is_refused(self, told: StoryOutcome, code: str, call: Callable[[], Awaitable[Committed]]) -> bool:
        try:
            done = await persistently(call, limits.DEMO_PERSISTENCE_S)
        except CallRefused as refused:
            told.refusals += 1
            if refused.code == code:
                return True
            self._tally.problem(f"invoice {told.story.invoice.number}: refused with {refused.code}, not {code}")
            return False
        self._tally.problem(f"invoice {told.story.invoice.number}: {code} was not refused: {done.event['event_id']}")
        return False

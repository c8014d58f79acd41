"""How a call waits: a silent reply topic is noticed soon, and a slow decision is not asked for while others come."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ingress import limits
from ingress.commands.exchange import Exchange
from schemas import records
from schemas.services import OPERATIONS
from sinks.kafka.connection import KafkaConnection


class Silent:
    """A producer that Kafka acknowledges, and stored results that are asked and have none."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.asked = 0

    def send(self, pending: Any, *, is_awaited: bool) -> None:
        self.sent.append((pending, is_awaited))

    def take_reports(self) -> None:
        for pending, _ in self.sent:
            pending.acknowledged(0, 1)

    async def find(self, _: Any) -> None:
        self.asked += 1

    async def parked(self, _: Any) -> set[int]:
        return set()


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Silent:
    for name, value in {"FIRST": 10, "SLOW": 60_000, "MAX": 20}.items():
        monkeypatch.setattr(limits, f"RESULT_STORE_POLL_{name}_MS", value)
    return Silent()


def _command() -> records.Command:
    return records.Command(
        operation="create_payment_intent",
        request_id="r",
        idempotency_key="k",
        aggregate_key="pi_1",
        expected_version=None,
        scope="m_1",
        request_hash=bytes(32),
        trace_id="t",
        issued_at=1,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=OPERATIONS["create_payment_intent"].normalize({"amount": 5, "currency": "GBP"})[0],
    )


def _exchange(seam: Silent) -> Exchange:
    made = Exchange(KafkaConnection(bootstrap="nowhere:1"), 0, seam)  # type: ignore[arg-type]
    made._producer, made._results = seam, SimpleNamespace(ready=True, partition=0)  # type: ignore[assignment]
    return made


async def _asked(exchange: Exchange, wait_s: float = 0.2) -> Any:
    return (await exchange.carry_out([_command()], wait_s, only_acknowledged=False, bulk=False))[0]


def test_a_silent_reply_topic_is_noticed_and_the_database_asked(seam: Silent) -> None:
    exchange = _exchange(seam)
    exchange.is_silent = False
    pending = asyncio.run(_asked(exchange))
    assert seam.asked > 1
    assert exchange.is_silent
    assert pending.place == (0, 1)  # Kafka has it: a 202 and no 503, though nobody was woken for the acknowledgement


def test_a_slow_decision_is_asked_for_only_at_the_end_while_others_come(seam: Silent) -> None:
    exchange = _exchange(seam)

    async def run() -> None:
        slow = asyncio.create_task(_asked(exchange))
        other = asyncio.create_task(_asked(exchange))
        await asyncio.sleep(0)
        reply_id = seam.sent[1][0].command.reply_id
        exchange._on_results([records.Result(reply_id=reply_id, outcome="committed", replayed=False, body=b"{}")])
        assert (await other).outcome == "committed"
        assert (await slow).open

    asyncio.run(run())
    assert seam.asked == 1
    assert not exchange.is_silent


def test_a_question_on_its_way_when_the_decision_comes_is_not_cancelled(
    seam: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cancel a statement of Postgres takes a connection more, and owners that are slow are asked about often."""
    exchange, ended = _exchange(seam), list[str]()

    async def run() -> None:
        begun, answer = asyncio.Event(), asyncio.Event()

        async def find(_: Any) -> None:
            begun.set()
            await answer.wait()
            ended.append("answered")

        monkeypatch.setattr(seam, "find", find)
        call = asyncio.create_task(_asked(exchange, 60))
        await begun.wait()
        reply_id = seam.sent[0][0].command.reply_id
        exchange._on_results([records.Result(reply_id=reply_id, outcome="committed", replayed=False, body=b"{}")])
        assert (await call).outcome == "committed"  # it waits for nobody else
        answer.set()
        await asyncio.gather(*exchange._asking, return_exceptions=True)

    asyncio.run(run())
    assert ended == ["answered"]
